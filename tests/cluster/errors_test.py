"""An error under launch.py: the terminal has it once, from the process that found it, and the log of every process says why it ended.

Usage: errors_test.py BIN_DIR
"""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from cluster import Cluster, unwrapped  # noqa: E402
from launch_test import end_of, start_job  # noqa: E402

BIN = None
TRAIN = ["--kv-store=dist_sync", "--network=mlp", "--num-epochs=1000", "--num-examples=128"]
# Who has these fails once it has joined; the others wait for it.
FAILS = ["--num-devices=3", "--work-load-list=1000000,1,1"]
WHY = "Some splits are empty"
FIRST_FAILS = f'if [ "$DMLC_RANK" = 0 ]; then set -- "$@" {" ".join(FAILS)}; fi; exec "$@"'


class Errors(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.logs = pathlib.Path(scratch.name)

    def run_job(self, *arguments, workers=2, servers=2):
        """(exit code, what the terminal shows in long lines)"""
        job = start_job(self, "-n", workers, "-s", servers, "--log-dir", self.logs, *arguments)
        code, said = end_of(job, 60)
        return code, unwrapped(said)

    def test_a_wrong_flag(self):
        code, said = self.run_job(BIN / "train_mnist", "--kv-store=dist_sync", "--lr=abc", workers=3)
        self.assertEqual(code, 2, said)
        self.assertEqual(said.count("flag --lr got 'abc'"), 1, said)
        self.assertRegex(said, r"launch\.py: worker (\d) \(pid \d+\) ended with exit code 2, and worker \d, worker \d with the same words; its last lines are above")

    def test_a_wrong_variable_of_the_servers(self):
        code, said = self.run_job("--env-server", "SLUICE_SERVER_THREADS=abc", BIN / "train_mnist", "--kv-store=dist_sync")
        self.assertEqual(code, 2, said)
        self.assertEqual(said.count("SLUICE_SERVER_THREADS is 'abc'"), 1, said)
        self.assertRegex(said, r"launch\.py: server \d \(pid \d+\) ended with exit code 2")

    def test_a_wrong_variable_of_servers_and_workers(self):
        bad = "PS_HEARTBEAT_TIMEOUT=abc"
        code, said = self.run_job("--env-server", bad, "--env-worker", bad, BIN / "train_mnist", "--kv-store=dist_sync", workers=1, servers=1)
        self.assertEqual(code, 2, said)
        self.assertEqual(said.count("PS_HEARTBEAT_TIMEOUT is 'abc'"), 1, said)
        self.assertRegex(said, r"launch\.py: (server|worker) 0 \(pid \d+\) ended with exit code 2, and (server|worker) 0 with the same words; its last lines are above")

    def test_a_worker_that_fails_within_the_job(self):
        code, said = self.run_job("sh", "-c", FIRST_FAILS, "sh", BIN / "train_mnist", *TRAIN)
        self.assertEqual(code, 1, said)
        self.assertEqual(said.count(WHY), 1, said)
        self.assertRegex(said, rf"\[worker 0\] train_mnist: error: [^\n]*{WHY}")
        self.assertRegex(said, r"launch\.py: worker 0 \(pid \d+\) ended with exit code 1; its last lines are above")

    def test_every_log_says_why_its_process_ended(self):
        """Also where nobody has them all on one terminal."""
        with Cluster(BIN, 2, 2) as cluster:
            scheduler = cluster.start_scheduler()
            servers = [cluster.start_server(rank) for rank in range(2)]
            culprit = cluster.start_worker(0, [BIN / "train_mnist", *TRAIN, *FAILS])
            other = cluster.start_worker(1, [BIN / "train_mnist", *TRAIN])
            for process in cluster.processes:
                self.assertEqual(process.wait(60), 1, process.output())
            why = rf"worker 0 \(host [^)]*\) failed: [^\n]*{WHY}"
            self.assertRegex(scheduler.output(), rf"ERROR: told by worker 0: the job stops: {why}")
            for server in servers:
                self.assertRegex(server.output(), rf"ERROR: told by the scheduler: the job stops: {why}")
            self.assertRegex(other.output(), rf"train_mnist: error: told by the scheduler: [^\n]*{why}")
            self.assertRegex(culprit.output(), rf"train_mnist: error: [^\n]*{WHY}")
            self.assertNotIn("told by", culprit.output())
            for process in cluster.processes:
                self.assertEqual(process.output().count(WHY), 1, process.output())

    def test_who_comes_once_the_job_has_failed_was_told_why(self):
        """So launch.py shows it once, though who comes later has more words for it."""
        with Cluster(BIN, 1, 1) as cluster:
            cluster.start_scheduler()
            server = cluster.start("server 0", ["prlimit", "--nofile=48:48", BIN / "sluice_server"],
                                   DMLC_ROLE="server", DMLC_RANK=0, SLUICE_SERVER_THREADS=1)
            self.assertEqual(server.wait(60), 1, server.output())
            late = cluster.start_worker(0, [BIN / "train_mnist", *TRAIN])
            self.assertEqual(late.wait(60), 1, late.output())
            why = "too few descriptors for the connections"
            self.assertRegex(server.output(), rf"ERROR: the job stops: {why}")
            self.assertRegex(late.output(), rf"train_mnist: error: told by the scheduler: could not join the job: the job has ended: server 0 \(host [^)]*\) failed: {why}")
            self.assertEqual(late.output().count(why), 1, late.output())

    def test_the_last_lines_are_shown_where_they_do_not_stand_above(self):
        flood = f"for i in $(seq 100); do echo {'x' * 20} $i; done"
        code, said = self.run_job("sh", "-c", f"if [ $DMLC_RANK = 0 ]; then echo last words; sleep 1; exit 7; fi; {flood}; sleep 60", servers=1)
        self.assertEqual(code, 7, said)
        self.assertRegex(said, r"worker 0 \(pid \d+\) ended with exit code 7; its last lines:\n?\s*\| last words\n")


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
