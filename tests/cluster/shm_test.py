"""Memory that processes of one host share: what a job makes of it, falls back to, and leaves behind.

Usage: shm_test.py BIN_DIR
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import labs  # noqa: E402
from cluster import Cluster, unwrapped  # noqa: E402
from network_test import files, launch, sluice_sockets, sockets_of  # noqa: E402

BIN = None
PATIENCE = 60


def train(epochs, *more):
    return [BIN / "train_mnist", "--network=mlp", "--kv-store=dist_sync", f"--num-epochs={epochs}", "--num-examples=2000", *more]


def shared_mappings(process):
    """How many pieces of nameless memory the process has mapped."""
    return pathlib.Path(f"/proc/{process.popen.pid}/maps").read_text().count("/memfd:sluice")


@contextlib.contextmanager
def other_network():
    """A command that runs in a network namespace of its own, the address of this side, and the name of that side's device."""
    tag = f"sl{os.getpid() % 100000}"
    here, there = "10.231.17.1", "10.231.17.2"
    ip = lambda *arguments: subprocess.run(["ip", *arguments], check=True, capture_output=True)
    try:
        ip("netns", "add", tag)
        ip("link", "add", f"{tag}a", "type", "veth", "peer", "name", f"{tag}b", "netns", tag)
        ip("addr", "add", f"{here}/30", "dev", f"{tag}a")
        ip("link", "set", f"{tag}a", "up")
        ip("-n", tag, "addr", "add", f"{there}/30", "dev", f"{tag}b")
        ip("-n", tag, "link", "set", f"{tag}b", "up")
        yield ["ip", "netns", "exec", tag], here
    finally:
        subprocess.run(["ip", "link", "del", f"{tag}a"], capture_output=True)
        subprocess.run(["ip", "netns", "del", tag], capture_output=True)


class SharedMemory(unittest.TestCase):
    def test_every_worker_shares_with_every_server(self):
        for kind in ("dist_sync", "dist_device_sync"):
            with self.subTest(kind):
                done = launch("-n", 2, "-s", 2, "--env", "PS_VERBOSE=1", "--env", "SLUICE_TRANSPORT=shm", BIN / "kv_tour", f"--kv-store={kind}")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn(f"the tour is over: {kind}, 2 workers, all values right", done.stdout)
                self.assertEqual(done.stdout.count("worker shares memory with tcp://"), 4, done.stdout)

    def test_nothing_is_copied_where_a_worker_reads_weights_in_place(self):
        with tempfile.TemporaryDirectory() as folder:
            for workers, servers in ((1, 1), (2, 2)):
                with self.subTest(f"{workers}x{servers}"):
                    done = launch("-n", workers, "-s", servers, "--env", "SLUICE_TRANSPORT=shm", BIN / "kv_bench", "--modes=push_pull",
                                  "--bytes=8192,1048576,3000000", "--keys=4", "--raw=false", "--seconds=0.1", "--repeats=1", f"--json={folder}/lines")
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    lines = [json.loads(line) for line in pathlib.Path(folder, "lines").read_text().splitlines()]
                    self.assertEqual([line["bytes"] for line in lines], [8192, 1048576, 3000000])
                    for line in lines:
                        # What is not payload, and the first rounds of a key: views of its parts are made.
                        self.assertLess(line["copies_per_byte"], 0.1, line)

    def test_training_does_not_depend_on_the_transport(self):
        results = {}
        for transport in ("tcp", "ipc", "shm"):
            done = launch("-n", 2, "-s", 2, "--env", f"SLUICE_TRANSPORT={transport}", *train(2))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            results[transport] = [re.sub(r"\d+ images/s", "", line) for line in done.stdout.splitlines() if "accuracy" in line]
        self.assertTrue(results["tcp"])
        self.assertEqual(results["tcp"], results["shm"])
        self.assertEqual(results["tcp"], results["ipc"])

    def test_a_server_that_shares_none(self):
        with Cluster(BIN, 1, 1, PS_VERBOSE=1) as cluster:
            cluster.start_scheduler()
            cluster.start_server(0, SLUICE_TRANSPORT="tcp")
            worker = cluster.start_worker(0, train(1))
            self.assertEqual(worker.wait(PATIENCE), 0, worker.output())
            self.assertRegex(worker.output(), r"no memory is shared with tcp://127.0.0.1:\d+: it shares none; payloads travel by messages")

    def test_who_requires_shared_memory_fails_without(self):
        with Cluster(BIN, 1, 1) as cluster:
            cluster.start_scheduler()
            cluster.start_server(0, SLUICE_TRANSPORT="tcp")
            worker = cluster.start_worker(0, train(1), SLUICE_TRANSPORT="shm")
            self.assertEqual(worker.wait(PATIENCE), 1, worker.output())
            self.assertRegex(worker.output(), r"no memory is shared with tcp://127.0.0.1:\d+: it shares none; SLUICE_TRANSPORT is shm")

    def test_another_network_namespace(self):
        if os.geteuid() != 0 or shutil.which("ip") is None:
            labs.missing("network namespaces need root and iproute2")
        with contextlib.ExitStack() as stack:
            try:
                inside, here = stack.enter_context(other_network())
            except subprocess.CalledProcessError as error:
                labs.missing(f"no network namespaces here: {error.stderr.decode().strip()}")
            cluster = stack.enter_context(Cluster(BIN, 1, 1, PS_VERBOSE=1, DMLC_PS_ROOT_URI=here))
            cluster.start_scheduler()
            cluster.start_server(0)
            worker = cluster.start_worker(0, [*inside, *train(1)])
            self.assertEqual(worker.wait(PATIENCE), 0, worker.output())
            self.assertIn("it runs on another host or in another network namespace; payloads travel by messages", worker.output())

    def test_a_word_that_is_no_transport(self):
        done = launch("-n", 1, "-s", 1, "--env", "SLUICE_TRANSPORT=rdma", *train(1))
        self.assertEqual(done.returncode, 2)
        self.assertIn("SLUICE_TRANSPORT is 'rdma'; it must be auto, tcp, ipc or shm", unwrapped(done.stdout + done.stderr))

    def test_kill_9_leaves_nothing(self):
        for victim in ("worker 0", "server 1", "scheduler"):
            with self.subTest(victim):
                before = files()
                with Cluster(BIN, 2, 2, SLUICE_TRANSPORT="shm", PS_HEARTBEAT_INTERVAL=0.2, PS_HEARTBEAT_TIMEOUT=2) as cluster:
                    _, servers, workers = cluster.start_all(train(1000))
                    workers[0].wait_for_output("epoch 1 loss", PATIENCE)
                    self.assertTrue(all(shared_mappings(process) > 0 for process in [*servers, *workers]))
                    rendezvous = set().union(*(sockets_of(server) for server in servers))
                    self.assertGreaterEqual(len(rendezvous), 2)
                    (killed,) = (process for process in cluster.processes if process.name == victim)
                    killed.kill(signal.SIGKILL)
                    for process in cluster.processes:
                        self.assertNotEqual(process.wait(PATIENCE), 0, process.output())
                    self.assertFalse(rendezvous & sluice_sockets())
                self.assertEqual(files(), before)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    import network_test
    network_test.BIN = BIN
    unittest.main(verbosity=2)
