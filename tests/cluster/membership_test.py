"""What each role sees of its job: barriers that servers take part in, the dead counted, processes that come back.

Usage: membership_test.py BIN_DIR
"""
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from cluster import Cluster  # noqa: E402

BIN = None
PROBE = None
HEARTBEAT = {"PS_HEARTBEAT_INTERVAL": "0.2", "PS_HEARTBEAT_TIMEOUT": "3"}
# No death is found by silence before the test has failed.
PATIENT = {"PS_HEARTBEAT_INTERVAL": "0.2", "PS_HEARTBEAT_TIMEOUT": "600"}
SOON = 30


def start(cluster, role, rank, steps=0, name=None, **environment):
    """A worker, or a server program of one's own, with an identity of its own."""
    return cluster.start(name or f"{role} {rank}", [PROBE, steps], DMLC_ROLE=role, SLUICE_NODE_ID=f"{role}-{rank}", **environment)


def start_job(cluster, workers, servers, steps=0):
    return (cluster.start_scheduler(), [start(cluster, "server", rank, DMLC_RANK=rank) for rank in range(servers)],
            [start(cluster, "worker", rank, steps, DMLC_RANK=rank) for rank in range(workers)])


class Barriers(unittest.TestCase):
    def test_servers_wait_for_each_other_and_for_all(self):
        with Cluster(BIN, 2, 2, **PATIENT) as cluster:
            scheduler, servers, workers = start_job(cluster, 2, 2, steps=3)
            for process in (*workers, *servers, scheduler):
                self.assertEqual(process.wait(SOON), 0, process.output())
            for rank, server in enumerate(servers):
                self.assertIn(f"server {rank} of 2 is past the barrier of the servers", server.output())
            for process in (*workers, *servers):
                self.assertIn(f"{process.name} is past the barriers of all, 0 dead", process.output())


class UnlikeHosts(unittest.TestCase):
    """Whatever processes of a job must have alike is decided once, or refused with both values."""

    def test_a_server_that_was_told_its_threads_decides_for_who_was_told_nothing(self):
        with Cluster(BIN, 1, 3, PS_VERBOSE=1) as cluster:
            scheduler = cluster.start_scheduler()
            servers = [cluster.start_server(0), cluster.start_server(1, SLUICE_SERVER_THREADS=3), cluster.start_server(2)]
            worker = cluster.start_worker(0, [BIN / "kv_tour", "--kv-store=dist_sync"])
            for process in (worker, *servers, scheduler):
                self.assertEqual(process.wait(SOON), 0, process.output())
            for server in servers:
                self.assertIn("shard 2 at ", server.output())
                self.assertNotIn("shard 3 at ", server.output())

    def test_servers_that_were_told_unlike_numbers_are_refused_with_both(self):
        with Cluster(BIN, 1, 2, **PATIENT) as cluster:
            cluster.start_scheduler()
            servers = [cluster.start_server(rank, SLUICE_SERVER_THREADS=rank + 2) for rank in range(2)]
            end = time.monotonic() + SOON
            while all(server.popen.poll() is None for server in servers) and time.monotonic() < end:
                time.sleep(0.05)
            refused = next((server for server in servers if server.popen.poll() is not None), servers[1])
            self.assertEqual(refused.wait(SOON), 1, refused.output())
            self.assertRegex(refused.output(), "to run (2|3) key-owning threads, but server [01] .* was told (2|3)")
            self.assertIn("SLUICE_SERVER_THREADS", refused.output())

    def test_heartbeats_that_are_too_slow_for_the_scheduler_are_refused_with_both_numbers(self):
        with Cluster(BIN, 1, 1) as cluster:
            cluster.start_scheduler(PS_HEARTBEAT_INTERVAL="0.2", PS_HEARTBEAT_TIMEOUT="3")
            worker = cluster.start_worker(0, [BIN / "kv_tour", "--kv-store=dist_sync"], PS_HEARTBEAT_INTERVAL="4")
            self.assertEqual(worker.wait(SOON), 1, worker.output())
            self.assertIn("every 4 s (PS_HEARTBEAT_INTERVAL), but the scheduler takes who is silent for 3 s for dead", worker.output())


class Deaths(unittest.TestCase):
    def assert_counted(self, victim_of, name):
        with Cluster(BIN, 2, 2, **HEARTBEAT) as cluster:
            scheduler, servers, workers = start_job(cluster, 2, 2)
            for worker in workers:
                worker.wait_for_output("the first round has closed", SOON)
            victim = victim_of(scheduler, servers, workers)
            victim.kill()
            victim.wait(10)
            for process in (scheduler, *servers, *workers):
                if process is victim:
                    continue
                self.assertNotEqual(process.wait(SOON), 0, process.output())
                self.assertIn(name, process.output())
                if process is not scheduler:
                    self.assertIn("NumDeadNodes() == 1: ", process.output())

    def test_a_killed_worker_is_counted_by_workers_and_servers(self):
        self.assert_counted(lambda scheduler, servers, workers: workers[1], "worker 1 (host")

    def test_a_killed_server_is_counted_by_workers_and_servers(self):
        self.assert_counted(lambda scheduler, servers, workers: servers[0], "server 0 (host")

    def test_a_killed_scheduler_is_counted_by_workers_and_servers(self):
        self.assert_counted(lambda scheduler, servers, workers: scheduler, "the scheduler at tcp://127.0.0.1")


class Returns(unittest.TestCase):
    def test_during_the_rendezvous_a_restarted_worker_has_its_rank_again(self):
        with Cluster(BIN, 2, 1, **PATIENT) as cluster:
            scheduler = cluster.start_scheduler(PS_VERBOSE=1)
            first = start(cluster, "worker", 1, steps=3, DMLC_RANK=1)
            scheduler.wait_for_output("worker 1 (host", SOON)
            first.kill()
            first.wait(10)
            second = start(cluster, "worker", 1, steps=3, name="worker 1 again")
            scheduler.wait_for_output("has come with its identity 'worker-1'", SOON)
            other = start(cluster, "worker", 0, steps=3)
            server = start(cluster, "server", 0)
            for process in (second, other, server, scheduler):
                self.assertEqual(process.wait(SOON), 0, process.output())
            self.assertIn("worker 1 is past the barriers of all, 0 dead", second.output())

    def test_a_process_that_was_replaced_ends_and_says_by_whom(self):
        with Cluster(BIN, 2, 1, **PATIENT) as cluster:
            scheduler = cluster.start_scheduler(PS_VERBOSE=1)
            first = start(cluster, "worker", 1, steps=3, DMLC_RANK=1)
            scheduler.wait_for_output("worker 1 (host", SOON)
            second = start(cluster, "worker", 1, steps=3, name="worker 1 again")
            self.assertNotEqual(first.wait(SOON), 0)
            self.assertIn("this process was replaced by worker 1 (host", first.output())
            rest = start(cluster, "worker", 0, steps=3), start(cluster, "server", 0), second, scheduler
            for process in rest:
                self.assertEqual(process.wait(SOON), 0, process.output())

    def test_the_return_to_a_complete_job_is_a_death_that_nobody_waits_to_hear_of(self):
        with Cluster(BIN, 2, 1, **PATIENT) as cluster:
            scheduler, servers, workers = start_job(cluster, 2, 1)
            workers[0].wait_for_output("the first round has closed", SOON)
            workers[1].kill()
            workers[1].wait(10)
            newcomer = start(cluster, "worker", 1, name="worker 1 again")
            for process in (scheduler, *servers, workers[0], newcomer):
                self.assertNotEqual(process.wait(SOON), 0, process.output())
                self.assertRegex(process.output(), r"worker 1 \(host .*\) is dead: a new process")
            for process in (*servers, workers[0]):
                self.assertRegex(process.output(), r"NumDeadNodes\(\) == 1: .*worker 1 \(host")


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    PROBE = BIN.parent / "tests" / "membership_probe"
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
