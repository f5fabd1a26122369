"""Workers that wait for another one which lives and takes its time: SLUICE_OPERATION_TIMEOUT says how long, and a line
in the log says for whom.

Usage: waits_test.py BIN_DIR
"""
import contextlib
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from cluster import Cluster  # noqa: E402

BIN = None
PROBE = None
# What waits, the worker that waits, whom it names, the operation.
WAITS = {
    "init": (1, "worker 0 to initialise the key", "Init of key w"),
    "rows": (0, "worker 1", "pull of rows of key table, round 1"),
    "round": (0, "worker 1", "push_pull of key w, round 1"),
    "pull": (0, "worker 1", "pull of key w, round 1"),
    "set": (1, "worker 0 to set it as well (set a weight on worker 0 or on all workers)", "set of key w, round 1"),
    "barrier": (0, "worker 1", "barrier 'kvstore 0, barrier 1'"),
    "agree": (0, "worker 1", "barrier 'kvstore 0, barrier 1'"),
    "optimizer": (1, "worker 0 to set the optimiser", "setting the optimiser"),
}


class Waits(unittest.TestCase):
    @contextlib.contextmanager
    def jobs(self, *arguments, **environment):
        """{what: (scheduler, servers, workers)}, all at once, for they mostly wait."""
        with contextlib.ExitStack() as stack:
            jobs = {}
            for what in WAITS:
                cluster = stack.enter_context(Cluster(BIN, 2, 1, **environment))
                jobs[what] = cluster.start_all([PROBE, what, *arguments])
            yield jobs

    def expect_goes_on(self, job, waiting, line):
        """A worker's line says for whom it waits; the one that it waits for then goes on, and the job ends well."""
        scheduler, servers, workers = job
        workers[waiting].wait_for_output(line, 90)
        workers[1 - waiting].end_input()
        for process in (*workers, *servers, scheduler):
            self.assertEqual(process.wait(90), 0, process.output())

    def test_without_limit_they_wait_and_say_for_whom(self):
        with self.jobs(SLUICE_OPERATION_TIMEOUT="inf") as jobs:
            for what, job in jobs.items():
                waiting, whom, operation = WAITS[what]
                with self.subTest(what):
                    self.expect_goes_on(job, waiting, f"waiting for {whom}, for 1")
                    self.assertRegex(job[2][waiting].output(),
                                     rf"waiting for {re.escape(whom)}, for 1\d s so far: (push of key table, round 1 and 1 more operation|{re.escape(operation)})\n")

    def test_a_raised_limit_is_said_and_a_long_step_is_waited_for(self):
        with Cluster(BIN, 2, 1, SLUICE_OPERATION_TIMEOUT="300") as cluster:
            self.expect_goes_on(cluster.start_all([PROBE, "round"]), 0, "push_pull of key w, round 1; gives up after 300 s\n")

    def expect_ends(self, jobs, limit):
        for what, (_, _, workers) in jobs.items():
            waiting, whom, operation = WAITS[what]
            with self.subTest(what):
                self.assertEqual(workers[waiting].wait(60), 1, workers[waiting].output())
                output = workers[waiting].output()
                self.assertIn(operation, output)
                self.assertIn(f"was not done by its deadline: waiting for {whom}; the limit is {limit} s (SLUICE_OPERATION_TIMEOUT", output)

    def test_a_lowered_limit_ends_the_wait_and_names_whom_it_was_for(self):
        with self.jobs(SLUICE_OPERATION_TIMEOUT="5.5") as jobs:
            self.expect_ends(jobs, "5.5")

    def test_so_does_a_limit_that_the_program_sets(self):
        with self.jobs(6.5) as jobs:
            self.expect_ends(jobs, "6.5")

    def test_who_joins_says_who_is_missing(self):
        with Cluster(BIN, 2, 1) as cluster:
            scheduler, server = cluster.start_scheduler(), cluster.start_server(0)
            first = cluster.start_worker(0, [PROBE, "barrier"])
            first.wait_for_output("waiting for worker 1 to join, for 10 s so far; gives up after 600 s (SLUICE_RENDEZVOUS_TIMEOUT)", 60)
            second = cluster.start_worker(1, [PROBE, "barrier"])
            second.end_input()
            for process in (first, second, server, scheduler):
                self.assertEqual(process.wait(60), 0, process.output())

    def test_a_limit_that_is_none_is_refused(self):
        with Cluster(BIN, 1, 1, SLUICE_OPERATION_TIMEOUT="soon") as cluster:
            cluster.environment["DMLC_PS_ROOT_PORT"] = "9"
            worker = cluster.start_worker(0, [PROBE, "barrier"])
            self.assertEqual(worker.wait(30), 2, worker.output())
            self.assertIn("SLUICE_OPERATION_TIMEOUT is 'soon'; it must be a number of seconds from 0.1 to 31536000, or inf (0)", worker.output())


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    PROBE = BIN.parent / "tests" / "wait_probe"
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
