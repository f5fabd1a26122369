"""Unauthenticated peers and members gone wrong at every port while a job runs: the same result, bounded memory. docs/design/transport.md.

Usage: hostile_test.py BIN_DIR
"""
import itertools
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from attackers import MIB, Attackers, come_and_go  # noqa: E402
from cluster import Cluster  # noqa: E402

BIN = None
SHARDS = 2
# What docs/design/transport.md promises, for each port: an empty frame without end costs 32 times its bytes on the wire.
AMPLIFICATION = 32
SCHEDULER_BYTES, SHARD_BYTES, UNAUTHENTICATED_BYTES = 9 * MIB, 10 * MIB, 17 * MIB
# What comes by between two looks, the allocator's caches, and what training itself still takes.
SLACK = 64 * MIB
# Each cost 2 to 4 KiB when none was forgotten. Those whose end has not been read yet take as much, a few thousand at
# times, and an allocator keeps what they took: but once, and not in every batch.
NEWCOMERS, NEWCOMERS_BYTES, BATCHES = 10000, 8 * MIB, 3


def promised_growth(name):
    """Bytes, with one member gone wrong at each port."""
    if name == "scheduler":
        return AMPLIFICATION * SCHEDULER_BYTES + UNAUTHENTICATED_BYTES + SLACK
    if name.startswith("server"):
        return SHARDS * (AMPLIFICATION * SHARD_BYTES + UNAUTHENTICATED_BYTES) + SLACK
    return SLACK  # a worker listens nowhere


def peak_memory(process, field="VmHWM:"):
    """Bytes; 0 once it has ended."""
    try:
        for line in pathlib.Path(f"/proc/{process.popen.pid}/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    return 0


class Hostile(unittest.TestCase):
    FLAGS = ["--network=mlp", "--kv-store=dist_sync", "--num-steps=60", "--disp-batches=5", "--shuffle=false", "--num-examples=4000"]

    def start(self, cluster):
        saved = cluster.folder / "end.safetensors"
        cluster.start_all([BIN / "train_mnist", *self.FLAGS, f"--save-params={saved}"])
        return saved

    def wait_for_all(self, cluster, seconds=150):
        """Each process's peak memory, as last seen before it ended."""
        peaks = {}
        end = time.monotonic() + seconds
        while any(process.popen.poll() is None for process in cluster.processes):
            for process in cluster.processes:
                peaks[process.name] = max(peaks.get(process.name, 0), peak_memory(process))
            self.assertLess(time.monotonic(), end, "the job does not finish")
            time.sleep(0.02)
        for process in cluster.processes:
            self.assertEqual(process.popen.returncode, 0, process.output())
        return peaks

    def wait_for_attacks(self, attackers, ports, seconds=60):
        """Until each kind has come more often than there are ports."""
        end = time.monotonic() + seconds
        while min(attackers.sent.values()) <= ports:
            self.assertLess(time.monotonic(), end, f"some attackers hardly came in: {attackers.sent}")
            time.sleep(0.02)

    def run_undisturbed(self):
        with Cluster(BIN, 2, 2) as cluster:
            saved = self.start(cluster)
            self.wait_for_all(cluster)
            return saved.read_bytes()

    def run_attacked(self):
        with Cluster(BIN, 2, 2, SLUICE_SERVER_THREADS=SHARDS, PS_HEARTBEAT_TIMEOUT=120) as cluster:
            saved = self.start(cluster)
            workers = [process for process in cluster.processes if process.name.startswith("worker")]
            workers[0].wait_for_output("batch", 60)
            before = {process.name: peak_memory(process) for process in cluster.processes}
            ports = cluster.listening_ports()
            self.assertEqual(len(ports), 1 + 2 * SHARDS)
            environment = cluster.environment
            workers[1].kill(signal.SIGSTOP)  # in mid-round, until every kind of attacker has been at work
            with Attackers(ports, environment["SLUICE_JOB_ID"], environment["SLUICE_JOB_SECRET"]) as attackers:
                self.wait_for_attacks(attackers, len(ports))
                for process in cluster.processes:
                    if process not in workers:
                        process.wait_for_output("cut a connection from 127.0.0.1", 60)
                workers[1].kill(signal.SIGCONT)
                peaks = self.wait_for_all(cluster)
            for process in cluster.processes:
                growth = peaks[process.name] - before[process.name]
                print(f"  {process.name} grew by {growth / MIB:.0f} MiB of {promised_growth(process.name) / MIB:.0f}", file=sys.stderr)
                self.assertLessEqual(growth, promised_growth(process.name), process.name)
            return saved.read_bytes()

    def test_the_result_is_the_same_and_memory_is_bounded(self):
        self.assertEqual(self.run_attacked(), self.run_undisturbed())

    def test_members_that_come_and_go_are_forgotten(self):
        with Cluster(BIN, 1, 1, SLUICE_SERVER_THREADS=1) as cluster:
            scheduler, (server,), (worker,) = cluster.start_all([BIN / "train_mnist", *self.FLAGS, "--num-steps=1000000"])
            worker.wait_for_output("batch", 60)
            secret = cluster.environment["SLUICE_JOB_ID"], cluster.environment["SLUICE_JOB_SECRET"]
            for port in cluster.listening_ports():
                victim = scheduler if port == cluster.port() else server
                come_and_go(port, *secret, NEWCOMERS)   # as many as are remembered, and what an allocator keeps
                sizes = [peak_memory(victim, "VmRSS:")]
                for _ in range(BATCHES):
                    come_and_go(port, *secret, NEWCOMERS)
                    sizes.append(peak_memory(victim, "VmRSS:"))
                growth = min(after - before for before, after in itertools.pairwise(sizes))
                print(f"  {victim.name} grew by {growth / MIB:.1f} MiB of {NEWCOMERS_BYTES / MIB:.0f}", file=sys.stderr)
                self.assertLessEqual(growth, NEWCOMERS_BYTES, victim.name)
            for process in (scheduler, server, worker):
                self.assertIsNone(process.popen.poll(), process.output())


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
