"""Real processes, real deaths: whatever dies, the others end soon, say who it was, and with a non-zero exit code.

Usage: failure_test.py BIN_DIR
"""
import os
import pathlib
import signal
import socket
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from attackers import join, text  # noqa: E402
from cluster import Cluster  # noqa: E402

BIN = None
HEARTBEAT = {"PS_HEARTBEAT_INTERVAL": "0.2", "PS_HEARTBEAT_TIMEOUT": "3"}
# Long enough that a test always interrupts it.
LONG = ["--network=mlp", "--kv-store=dist_sync", "--num-epochs=1000", "--num-examples=2000", "--disp-batches=5"]
# Heartbeat timeout, plus what a loaded machine needs to notice, tell and end.
WITHIN = float(HEARTBEAT["PS_HEARTBEAT_TIMEOUT"]) + 2
SOON = 20


def train(*flags):
    return [BIN / "train_mnist", *flags]


class Death(unittest.TestCase):
    def interrupted(self, victim_of, number=signal.SIGKILL):
        """Starts 1+2+2, kills one process in mid-training; returns the victim and the others, all ended."""
        with Cluster(BIN, 2, 2, **HEARTBEAT) as cluster:
            scheduler, servers, workers = cluster.start_all(train(*LONG))
            workers[0].wait_for_output("batch", 60)
            victim = victim_of(scheduler, servers, workers)
            victim.kill(number)
            killed = time.monotonic()
            victim.wait(10)
            others = [p for p in cluster.processes if p is not victim]
            codes = {p.name: p.wait(SOON) for p in others}
            self.assertLess(time.monotonic() - killed, WITHIN, "somebody lingered")
            return victim, codes, {p.name: p.output() for p in cluster.processes}

    def assert_all_failed_naming(self, name, codes, outputs):
        for process, code in codes.items():
            self.assertNotEqual(code, 0, f"{process} ended with 0:\n{outputs[process]}")
            self.assertIn(name, outputs[process], f"{process} does not say who died")

    def test_a_killed_worker_ends_the_job(self):
        _, codes, outputs = self.interrupted(lambda s, v, w: w[1])
        self.assert_all_failed_naming("worker 1", codes, outputs)

    def test_a_killed_server_ends_the_job(self):
        _, codes, outputs = self.interrupted(lambda s, v, w: v[0])
        self.assert_all_failed_naming("server 0", codes, outputs)

    def test_a_killed_scheduler_ends_the_job(self):
        _, codes, outputs = self.interrupted(lambda s, v, w: s)
        self.assert_all_failed_naming("scheduler", codes, outputs)

    def test_a_stopped_worker_counts_as_dead(self):
        with Cluster(BIN, 2, 1, **HEARTBEAT) as cluster:
            scheduler, servers, workers = cluster.start_all(train(*LONG))
            workers[0].wait_for_output("batch", 60)
            workers[1].kill(signal.SIGSTOP)
            codes = {p.name: p.wait(SOON) for p in (scheduler, *servers, workers[0])}
            outputs = {p.name: p.output() for p in cluster.processes}
        self.assert_all_failed_naming("worker 1", codes, outputs)

    def test_sigterm_ends_a_worker_and_the_job_with_143(self):
        with Cluster(BIN, 2, 1, **HEARTBEAT) as cluster:
            scheduler, servers, workers = cluster.start_all(train(*LONG))
            workers[0].wait_for_output("batch", 60)
            workers[0].kill(signal.SIGTERM)
            self.assertEqual(workers[0].wait(SOON), 143, workers[0].output())
            for process in (scheduler, *servers, workers[1]):
                self.assertNotEqual(process.wait(SOON), 0, process.output())

    def test_sigusr1_prints_who_waits_for_what_and_hurts_nobody(self):
        with Cluster(BIN, 2, 1, **HEARTBEAT) as cluster:
            cluster.start_all(train(*LONG))
            for process in cluster.processes:
                if process.name == "worker 0":
                    process.wait_for_output("batch", 60)
            for process in cluster.processes:
                process.kill(signal.SIGUSR1)
            for process in cluster.processes:
                process.wait_for_output("state of", 10)
                self.assertIsNone(process.popen.poll())

    def test_sigusr1_hurts_no_worker_at_its_end(self):
        for _ in range(10):
            with Cluster(BIN, 1, 1, DMLC_LOCAL=1) as cluster:
                _, _, workers = cluster.start_all([BIN / "kv_tour", "--kv-store=dist_sync"])
                workers[0].wait_for_output("push", 60)
                while workers[0].popen.poll() is None:
                    workers[0].kill(signal.SIGUSR1)
                self.assertEqual(workers[0].wait(SOON), 0, workers[0].output())

    def test_sigusr1_names_whom_a_worker_waits_for_before_anything_is_repeated(self):
        with Cluster(BIN, 2, 1, PS_RESEND_TIMEOUT=600_000, PS_HEARTBEAT_TIMEOUT=600) as cluster:
            _, _, workers = cluster.start_all(train(*LONG))
            workers[0].wait_for_output("batch", 60)
            workers[1].kill(signal.SIGSTOP)
            end = time.monotonic() + 60
            while "waiting for worker 1" not in workers[0].output():
                self.assertLess(time.monotonic(), end, workers[0].output())
                asked = workers[0].output().count("state of the worker")
                workers[0].kill(signal.SIGUSR1)
                while workers[0].output().count("state of the worker") == asked:
                    self.assertLess(time.monotonic(), end, workers[0].output())
                    time.sleep(0.05)
            self.assertRegex(workers[0].output(), r"(pull|push_pull) of key \S+, round \d+: \d+ parts left, waiting for worker 1\b")


class Joining(unittest.TestCase):
    def assert_fits(self, cluster):
        for process in cluster.processes:
            for line in process.printed().splitlines():
                self.assertLessEqual(len("[worker 99] " + line), 80, line)

    def test_nobody_listens(self):
        with socket.socket() as holder:  # bound, not listening: nobody answers
            holder.bind(("127.0.0.1", 0))
            port = holder.getsockname()[1]
            with Cluster(BIN, 1, 1, SLUICE_RENDEZVOUS_TIMEOUT="2", **HEARTBEAT) as cluster:
                cluster.environment["DMLC_PS_ROOT_PORT"] = str(port)
                worker = cluster.start_worker(0, train("--kv-store=dist_sync"))
                self.assertNotEqual(worker.wait(SOON), 0)
                output = worker.output()
        self.assertIn(f"no answer from the scheduler at tcp://127.0.0.1:{port}", output)
        self.assertIn("DMLC_PS_ROOT_PORT", output)

    def test_who_comes_after_the_job_has_failed_hears_why(self):
        with Cluster(BIN, 2, 2, **HEARTBEAT) as cluster:
            scheduler = cluster.start_scheduler()
            servers = [cluster.start_server(rank, PS_VERBOSE=1) for rank in range(2)]
            servers[1].wait_for_output("is connected", 20)
            worker = cluster.start_worker(0, [BIN / "kv_tour", "--kv-store=dist_sync"], PS_VERBOSE=1)
            worker.wait_for_output("is connected", 20)
            servers[1].kill(signal.SIGTERM)
            self.assertEqual(servers[1].wait(SOON), 143)
            late = cluster.start_worker(1, [BIN / "kv_tour", "--kv-store=dist_sync"])
            for process in (scheduler, servers[0], worker, late):
                self.assertEqual(process.wait(SOON), 1, process.output())
                self.assertIn("server 1", process.output())

    def test_hosts_may_have_names(self):
        with Cluster(BIN, 1, 1, DMLC_PS_ROOT_URI="localhost", DMLC_NODE_HOST="localhost") as cluster:
            processes = cluster.start_all([BIN / "kv_tour", "--kv-store=dist_sync"])
            for process in (processes[0], *processes[1], *processes[2]):
                self.assertEqual(process.wait(60), 0, process.output())

    def test_a_scheduler_whose_host_nobody_knows(self):
        with Cluster(BIN, 1, 1, **HEARTBEAT) as cluster:
            cluster.environment.update(DMLC_PS_ROOT_URI="no-such-host.invalid", DMLC_PS_ROOT_PORT="9000")
            nodes = [cluster.start_worker(0, train("--kv-store=dist_sync")), cluster.start_server(0)]
            for node in nodes:
                self.assertEqual(node.wait(SOON), 2, node.output())
                self.assertIn("cannot resolve the scheduler's host 'no-such-host.invalid' (DMLC_PS_ROOT_URI)", node.output())

    def test_a_port_in_use_is_named(self):
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            port = holder.getsockname()[1]
            with Cluster(BIN, 1, 1, **HEARTBEAT) as cluster:
                cluster.environment["DMLC_PS_ROOT_PORT"] = str(port)
                scheduler = cluster.start("scheduler", [BIN / "sluice_scheduler"], DMLC_ROLE="scheduler")
                self.assertNotEqual(scheduler.wait(SOON), 0)
                self.assertIn(str(port), scheduler.output())
                self.assertIn("in use", scheduler.output())

    def test_a_worker_with_another_secret_is_kept_out_and_the_job_goes_on(self):
        with Cluster(BIN, 1, 1, **HEARTBEAT) as cluster:
            scheduler = cluster.start_scheduler()
            server = cluster.start_server(0)
            intruder = cluster.start_worker(0, train("--kv-store=dist_sync"), SLUICE_JOB_SECRET="0" * 32)
            self.assertEqual(intruder.wait(SOON), 1, intruder.output())
            self.assertIn("SLUICE_JOB_SECRET", intruder.output())
            late = cluster.start_server(1, SLUICE_JOB_SECRET="0" * 32)
            self.assertEqual(late.wait(SOON), 1, late.output())
            self.assertIn("SLUICE_JOB_SECRET", late.output())
            worker = cluster.start_worker(0, [BIN / "kv_tour", "--kv-store=dist_sync"])
            self.assertEqual(worker.wait(60), 0, worker.output())
            self.assertEqual(server.wait(SOON), 0, server.output())
            self.assertEqual(scheduler.wait(SOON), 0, scheduler.output())
            self.assertIn("refused a connection", scheduler.output())
            self.assert_fits(cluster)

    def test_a_node_of_another_protocol_version_is_told_both_versions_and_the_job_goes_on(self):
        with Cluster(BIN, 1, 1, **HEARTBEAT) as cluster:
            scheduler = cluster.start_scheduler()
            server = cluster.start_server(0)
            job = cluster.environment["SLUICE_JOB_ID"]
            with socket.create_connection(("127.0.0.1", cluster.port()), timeout=SOON) as intruder:
                join(intruder, job, cluster.environment["SLUICE_JOB_SECRET"])
                # Envelope.version (fixed32, field 1) and id (varint, field 4): see proto/envelope.proto.
                body = b"\x0d" + (77).to_bytes(4, "little") + b"\x20\x05"
                intruder.sendall(b"\x00" + text(body))
                heard = b""
                while b"protocol version 77" not in heard:
                    block = intruder.recv(4096)
                    self.assertTrue(block, f"the scheduler hung up after {heard}")
                    heard += block
                # In the version of whoever asks, about its message 5.
                self.assertIn(b"\x0d" + (77).to_bytes(4, "little"), heard)
                self.assertRegex(heard, rb"this process speaks version \d+")
            worker = cluster.start_worker(0, [BIN / "kv_tour", "--kv-store=dist_sync"])
            self.assertEqual(worker.wait(60), 0, worker.output())
            self.assertEqual(server.wait(SOON), 0, server.output())
            self.assertEqual(scheduler.wait(SOON), 0, scheduler.output())
            self.assertIn("protocol version 77", scheduler.output())
            self.assert_fits(cluster)

    def test_missing_nodes_are_named(self):
        with Cluster(BIN, 2, 1, SLUICE_RENDEZVOUS_TIMEOUT="3", **HEARTBEAT) as cluster:
            scheduler = cluster.start_scheduler()
            cluster.start_server(0)
            worker = cluster.start_worker(0, train("--kv-store=dist_sync"))
            self.assertNotEqual(scheduler.wait(SOON), 0)
            self.assertIn("worker 1", scheduler.output())
            self.assertNotEqual(worker.wait(SOON), 0)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
