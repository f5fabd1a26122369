"""Jobs over TCP, IPv6 and ipc with every kind of distributed store, and what PS_VERBOSE and SIGUSR1 tell of them.

Usage: network_test.py BIN_DIR
"""
import os
import pathlib
import re
import signal
import socket
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from cluster import Cluster, unwrapped  # noqa: E402
from launch_test import launch  # noqa: E402

BIN = None
# A name of at most ten characters in brackets, the time to the millisecond.
PREFIX = r"\[[a-z]+(?: \d+)?\] \d\d:\d\d:\d\d\.\d{3} "


def unix_sockets():
    """(name, inode) of Sluice's on this machine."""
    rows = [line.split() for line in pathlib.Path("/proc/net/unix").read_text().splitlines() if "sluice" in line]
    return [(row[-1], row[6]) for row in rows]


def sluice_sockets():
    """Their names."""
    return {name for name, _ in unix_sockets()}


def sockets_of(process):
    """The names of those that the process holds."""
    held = {os.readlink(link) for link in pathlib.Path(f"/proc/{process.popen.pid}/fd").iterdir()}
    return {name for name, inode in unix_sockets() if f"socket:[{inode}]" in held}


def files():
    return {path.name for path in pathlib.Path("/tmp").glob("sluice-*") if path.is_socket()}


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


class Networks(unittest.TestCase):
    """kv_tour checks every value itself."""

    def tour(self, kind, *arguments):
        done = launch("-n", 2, "-s", 2, *arguments, "--env", "PS_VERBOSE=1", BIN / "kv_tour", f"--kv-store={kind}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"the tour is over: {kind}, 2 workers, all values right", done.stdout)
        return done.stdout

    def test_ipc_leaves_nothing(self):
        before = files()
        for kind in ("dist_sync", "dist_device_sync"):
            with self.subTest(kind):
                text = self.tour(kind, "--env", "DMLC_LOCAL=1")
                names = set(re.findall(r"shard \d at ipc://(@\S+): DMLC_LOCAL", text))
                self.assertEqual(len(names), 2, text)
                self.assertRegex(text, r"worker is connected to ipc://@sluice-")
                self.assertFalse(names & sluice_sockets())
        self.assertEqual(files(), before)

    def test_ipc_leaves_nothing_of_the_killed_either(self):
        before = files()
        with Cluster(BIN, 1, 2, DMLC_LOCAL=1, PS_VERBOSE=1) as cluster:
            _, servers, workers = cluster.start_all([BIN / "train_mnist", "--network=mlp", "--kv-store=dist_sync", "--num-epochs=1000"])
            workers[0].wait_for_output("batch", 60)
            names = set()
            for server in servers:
                names |= set(re.findall(r"ipc://(@[^\s:]+)", server.output()))
            self.assertEqual(len(names & sluice_sockets()), 2)
            for process in cluster.processes:
                process.kill(signal.SIGKILL)
                process.wait(10)
            self.assertFalse(names & sluice_sockets())
        self.assertEqual(files(), before)

    def test_ipv6(self):
        if not has_ipv6():
            self.skipTest("this machine has no IPv6")
        text = self.tour("dist_sync", "--env", "DMLC_PS_ROOT_URI=::1")
        self.assertRegex(text, r"scheduler at tcp://\[::1\]:\d+")
        self.assertRegex(text, r"shard 0 at tcp://\[::1\]:\d+: route to the scheduler")

    def test_a_scheduler_on_every_address(self):
        # Behind a service of Kubernetes the scheduler cannot bind the address that the others connect to.
        for environment in ({"DMLC_PS_ROOT_URI": "0.0.0.0"}, {"DMLC_PS_ROOT_URI": "192.0.2.1", "DMLC_USE_KUBERNETES": "1"}):
            with self.subTest(environment), Cluster(BIN, 1, 1) as cluster:
                cluster.start_scheduler(**environment)
                cluster.start_server(0)
                cluster.start_worker(0, [BIN / "kv_tour", "--kv-store=dist_sync"])
                for process in cluster.processes:
                    self.assertEqual(process.wait(60), 0, process.output())

    def test_a_schedulers_name_that_nobody_knows(self):
        """Where a service of Kubernetes is to have it, it is waited for."""
        for environment, waits in (({}, 0), ({"DMLC_USE_KUBERNETES": "1"}, 1)):
            for role in ("start_server", "start_worker"):
                with self.subTest(environment, role=role), Cluster(BIN, 1, 1, DMLC_PS_ROOT_URI="nosuch.invalid", DMLC_PS_ROOT_PORT="9091", SLUICE_RENDEZVOUS_TIMEOUT="1", **environment) as cluster:
                    process = getattr(cluster, role)(0, *([[BIN / "kv_tour", "--kv-store=dist_sync"]] if role == "start_worker" else []))
                    self.assertEqual(process.wait(30), 2, process.output())
                    self.assertRegex(process.output(), r"cannot resolve the scheduler's host 'nosuch.invalid' \(DMLC_PS_ROOT_URI\)")
                    self.assertEqual(process.output().count("; trying again"), waits)

    def test_several_threads_move_messages(self):
        done = launch("-n", 2, "-s", 2, "--env", "SLUICE_IO_THREADS=3", "--env", "SLUICE_SERVER_THREADS=2", "--env", "SLUICE_TRANSPORT=tcp",
                      BIN / "embedding_table", "--kv-store=dist_sync", "--rows=10000", "--ids=500", "--num-steps=5", "--check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("all values right", done.stdout)

    def test_a_large_key_is_made_without_warnings_and_without_copies(self):
        size = 512
        for transport in ("tcp", "shm"):
            for count in (1, 2):
                with self.subTest(transport, workers=count):
                    done = launch("-n", count, "-s", 1, "--env", f"SLUICE_TRANSPORT={transport}", BIN.parent / "tests" / "wait_probe", "large", size)
                    text = done.stdout + done.stderr
                    self.assertEqual(done.returncode, 0, text)
                    peaks = re.findall(r"worker (\d+) MiB, server (\d+) MiB", text)
                    self.assertEqual(len(peaks), count, text)
                    for worker, server in peaks:
                        self.assertLess(int(worker), 1.25 * size + 100, text)
                        # What it has mapped of worker 0's memory counts as its own, too.
                        self.assertLess(int(server), (2.25 if transport == "shm" else 1.25) * size + 100, text)
                    self.assertNotRegex(text, r"WARNING|ERROR|warning", text)

    def test_async_stores_learn_with_defaults(self):
        for kind, workers, flags, chosen in (("dist_async", 2, ["--num-epochs=10"], "sgd, learning rate 0.1, momentum 0"),
                                             ("dist_async", 4, ["--network=lenet", "--num-epochs=4"], "sgd, learning rate 0.075, momentum 0"),
                                             ("dist_async", 2, ["--optimizer=nag", "--num-epochs=10"], "nag, learning rate 0.1, momentum 0"),
                                             ("dist_async", 2, ["--optimizer=adam"], "adam, learning rate 0.001"),
                                             ("dist_async", 2, ["--optimizer=rmsprop"], "rmsprop, learning rate 0.001, momentum 0"),
                                             ("dist_device_async", 2, ["--num-epochs=10", "--num-devices=2"],
                                              "sgd, learning rate 0.1, momentum 0")):
            with self.subTest(kind, workers=workers, flags=flags):
                done = launch("-n", workers, "-s", 2, BIN / "train_mnist", f"--kv-store={kind}", "--network=mlp", "--num-epochs=6", *flags,
                              "--num-examples=4000", "--num-test-examples=1000")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn(f"{chosen}\n", done.stdout)
                self.assertNotIn("may diverge", unwrapped(done.stdout))
                accuracy = float(re.search(r"final test accuracy (\S+)", done.stdout).group(1))
                # An untrained net has 0.1. How far it comes depends on how stale pushes are, and so on the machine's load.
                self.assertGreater(accuracy, 0.5, done.stdout)

    def test_async_stores_warn_of_what_diverges(self):
        done = launch("-n", 2, "-s", 1, BIN / "train_mnist", "--kv-store=dist_async", "--lr=0.05", "--mom=0.9", "--num-steps=1", "--num-examples=128")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("sgd: an async store with 2 workers, learning rate 0.05 and momentum 0.9 may diverge", unwrapped(done.stdout + done.stderr))


class Telling(unittest.TestCase):
    def verbose(self, level, *arguments):
        done = launch("-n", 2, "-s", 2, *arguments, "--env", f"PS_VERBOSE={level}", BIN / "kv_tour", "--kv-store=dist_sync")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_level_1_tells_connections_membership_barriers_and_rounds_in_80_columns(self):
        text = self.verbose(1)
        for line in (r"scheduler at tcp://127.0.0.1:\d+: DMLC_PS_ROOT_URI",
                     r"shard 0 at tcp://127.0.0.1:\d+: route to the scheduler",
                     r"worker is connected to tcp://127.0.0.1:\d+",
                     r"worker \d \(host \S+, pid \d+\) joined, \d of 4",
                     r"the job is complete after \d+ ms",
                     r"joined as worker 1, membership epoch 1",
                     r"membership epoch \d: \d alive, \d finished, dead: none",
                     r"barrier '[^']+' released, 2 members",
                     r"round 1 of a closed, 2 workers",
                     r"optimiser sgd, learning rate 0.5",
                     r"worker 0 \(host \S+, pid \d+\) left"):
            self.assertRegex(text, re.compile("^" + PREFIX + line + "$", re.MULTILINE))
        host = len(socket.gethostname())
        for line in text.splitlines():
            self.assertLessEqual(len(line), 80 + max(0, host - 10), line)
        self.assertNotIn(" -> ", text)

    def test_the_reason_of_an_address(self):
        self.assertRegex(self.verbose(1, "--env", "DMLC_NODE_HOST=127.0.0.1"), r"shard 0 at tcp://127.0.0.1:\d+: DMLC_NODE_HOST")
        self.assertRegex(self.verbose(1, "--env", "DMLC_INTERFACE=l"), r"shard 0 at tcp://127.0.0.1:\d+: DMLC_INTERFACE: lo")

    def test_level_2_tells_every_message_on_both_sides(self):
        text = self.verbose(2)
        for message in (r"worker \d -> DeclareKeys id \d+, 1 key", r"worker \d -> Push id \d+, 1 part, round 1, 24 B", r"server \d -> Ack id \d+ re \d+"):
            for way in ("from", "to"):
                self.assertTrue(re.search(rf"^{PREFIX}\S.* {way} .*: {message}$", text, re.MULTILINE), f"{way}: {message}")

    def test_sigusr1_tells_who_waits_for_what_and_the_job_goes_on(self):
        with Cluster(BIN, 2, 1) as cluster:
            flags = ["--network=mlp", "--kv-store=dist_sync", "--num-epochs=2", "--num-examples=4000", "--disp-batches=5"]
            scheduler, servers, workers = cluster.start_all([BIN / "train_mnist", *flags])
            workers[0].wait_for_output("batch", 60)
            workers[1].kill(signal.SIGSTOP)  # the others wait for it, by name
            try:
                end = time.monotonic() + 8
                while "worker 1" not in servers[0].output() or "worker 1" not in workers[0].output():
                    self.assertLess(time.monotonic(), end, servers[0].output() + workers[0].output())
                    for process in (scheduler, servers[0], workers[0]):
                        process.kill(signal.SIGUSR1)
                    time.sleep(0.1)
            finally:
                workers[1].kill(signal.SIGCONT)
            workers[1].kill(signal.SIGUSR1)
            for process in cluster.processes:
                process.wait_for_output("state of", 10)
                self.assertEqual(process.wait(60), 0, process.output())
            self.assertIn("final test accuracy", workers[0].output())


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
