"""What the library does to the process that uses it, and to what that starts: nothing is started again, no signal, variable or limit leaks.

Usage: process_test.py BIN_DIR
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from launch_test import LAUNCH, command_of  # noqa: E402

BIN = None
SPINS = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
LOADER = "/lib64/ld-linux-x86-64.so.2"
# Calls that a worker makes after Finish, and the operation that the error names.
LEFT = {
    "Push": "push of key w", "Pull": "pull of key w", "PullLatest": "pull of key w", "PushPull": "push_pull of key w: pull of key w",
    "Set": "set of key w: pull of key w", "PushRowSparse": "push of key t", "RowSparsePull": "pull of key t", "Init": "Init", "Broadcast": "Init",
    "InitRowSparse": "Init", "SetRowSparse": "store of rows", "RowSparseIds": "wait for rounds", "SetOptimizer": "SetOptimizer",
    "NumUpdates": "wait for rounds", "Barrier": "barrier", "Agree": "barrier", "NumDeadNodes": "NumDeadNodes", "SaveOptimizerStates": "wait for rounds",
    "LoadOptimizerStates": "store of states", "Compressed push": "push of key w", "SaveStates": "wait for rounds", "LoadStates": "barrier",
    "Fit": "barrier", "Step": r"push_pull of key 0\.(weight|bias).*",
}


def clean(**variables):
    return {**{name: value for name, value in os.environ.items() if name not in SPINS}, **variables}


class Process(unittest.TestCase):
    def probe(self):
        return str(BIN.parent / "tests" / "process_probe")

    def run_probe(self, *flags, before=(), **variables):
        done = subprocess.run([*before, self.probe(), *flags], env=clean(**variables), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout.splitlines()

    def start(self, *flags, until="ready", **options):
        process = subprocess.Popen([self.probe(), *flags], env=clean(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        for line in process.stdout:
            if line.startswith(until):
                return process, line
        self.fail("the program has ended")

    def end(self, process, number):
        process.send_signal(number)
        said = process.communicate(timeout=60)[0]
        return process.returncode, said

    # --- Nothing is started again ---

    def test_a_parser_that_takes_its_flags_out_before_init_keeps_them(self):
        lines = self.run_probe("--show=given")
        self.assertEqual([line for line in lines if line.startswith(("show", "before", "arguments"))], ["before Init", "show given", "arguments 0"])

    def test_init_takes_no_arguments(self):
        lines = self.run_probe("--show=given", "--init=none", "rest")
        self.assertEqual([line for line in lines if line.startswith(("show", "before", "arguments"))], ["before Init", "show given", "arguments 1"])

    def test_a_program_may_be_started_through_the_loader(self):
        if not os.path.exists(LOADER):
            self.skipTest(f"there is no {LOADER}")
        self.assertIn("show given", self.run_probe("--show=given", before=[LOADER]))
        done = subprocess.run([LOADER, BIN / "train_mnist", "--network=mlp", "--num-epochs=0", "--num-examples=64"], env=clean(), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout)

    # --- Nothing leaks into what the program starts ---

    def looks(self, *flags, before=(), **variables):
        """What a child of the program sees."""
        lines = self.run_probe(*flags, before=before, **variables)
        start = next(index for index, line in enumerate(lines) if line.startswith("SigBlk"))
        return [self.without_internal_signals(line) for line in lines[start:lines.index("end of child")]]

    @staticmethod
    def without_internal_signals(line):
        """32 and 33 are glibc's own: posix_spawn ignores them in what it starts, and the first thread that a process makes handles the
        second, so that what that starts does not ignore it any more."""
        name, _, mask = line.partition(":\t")
        return f"{name}:\t{int(mask, 16) & ~(3 << 31):016x}" if name == "SigIgn" else line

    def test_a_child_sees_what_it_would_see_without_the_library(self):
        expected = self.looks("--what=look")
        for how in ("posix_spawn", "fork", "system"):
            with self.subTest(how):
                self.assertEqual(self.looks("--what=spawn", f"--spawn={how}"), self.looks("--what=look", f"--spawn={how}"))
        self.assertIn("SigBlk:\t0000000000000000", expected)

    def test_a_child_of_a_program_that_was_started_again_sees_no_trace_of_it(self):
        self.assertEqual(self.looks("--what=spawn", "--restart"), self.looks("--what=look"))

    def test_a_child_of_a_worker_sees_what_it_would_see_without_the_library(self):
        for how in ("posix_spawn", "fork", "system"):
            with self.subTest(how):
                # A worker that first does the same without the library.
                script = f"{self.probe()} --what=look --spawn={how} && exec {self.probe()} --what=spawn --spawn={how}"
                done = subprocess.run([*LAUNCH, "-n", "1", "-s", "1", "sh", "-c", script], env=clean(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      text=True, timeout=60)
                self.assertEqual(done.returncode, 0, done.stdout)
                lines = [line.partition("] ")[2] for line in done.stdout.splitlines() if line.startswith("[worker 0] ")]
                without, _, with_library = "\n".join(lines).partition("end of child")
                seen = [[self.without_internal_signals(line) for line in text[text.index("SigBlk"):text.index("end of child")].splitlines()]
                        for text in (without + "end of child", with_library)]
                self.assertGreater(len(seen[0]), 20)
                self.assertEqual(*seen)

    def test_ctrl_c_ends_the_child_too(self):
        for how in ("posix_spawn", "fork"):
            with self.subTest(how):
                process, line = self.start("--what=long_child", f"--spawn={how}", until="child", start_new_session=True)
                os.killpg(process.pid, signal.SIGINT)
                self.assertIn(process.wait(30), (130, -signal.SIGINT))  # its child may end before it hears of it, and it then ends, too
                child = int(line.split()[1])
                end = time.monotonic() + 30
                while command_of(child):
                    self.assertLess(time.monotonic(), end, "the child has outlived Ctrl-C")
                    time.sleep(0.02)

    # --- Signals: the program's own word counts ---

    def test_a_handler_of_the_program_runs(self):
        for when in ("before", "after"):
            with self.subTest(when):
                process, _ = self.start("--what=sleep", f"--handler={when}")
                code, said = self.end(process, signal.SIGTERM)
                self.assertEqual((code, said), (0, "the program's own handler ran\n"))

    def test_a_signal_that_the_program_waits_for_is_its_own(self):
        process, _ = self.start("--what=sigwait", "--block=SIGTERM")
        code, said = self.end(process, signal.SIGTERM)
        self.assertEqual((code, said), (0, "the program's sigwait has 15\n"))

    def test_a_signal_that_is_ignored_stays_so(self):
        process, _ = self.start("--what=sleep", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGUSR1)  # answered after it
        for line in process.stdout:
            if "state of the worker" in line:
                break
        code, said = self.end(process, signal.SIGTERM)
        self.assertEqual(code, 143, said)

    def test_a_signal_ends_a_program_that_does_not_care(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process, _ = self.start("--what=sleep")
            code, said = self.end(process, number)
            self.assertEqual(code, 128 + number)
            self.assertIn("ended by SIG", said)

    def test_a_program_may_end_in_its_own_time_and_a_second_signal_ends_it(self):
        process, _ = self.start("--what=sleep", "--termination")
        code, said = self.end(process, signal.SIGTERM)
        self.assertEqual(code, 0, said)
        self.assertTrue(said.endswith("the program was asked to end\n"), said)
        process, _ = self.start("--what=let_go")
        code, said = self.end(process, signal.SIGTERM)
        self.assertEqual(code, 143, said)
        self.assertNotIn("it goes on", said)
        process, _ = self.start("--what=stubborn")
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        self.assertIn(process.wait(30), (130, 143))
        process, _ = self.start("--what=long_end")
        process.send_signal(signal.SIGTERM)
        next(line for line in process.stdout if "it ends" in line)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(30), 130)

    def test_what_runs_at_the_end_may_exit_or_fail(self):
        process, _ = self.start("--what=exit_at_end")
        code, said = self.end(process, signal.SIGTERM)
        self.assertEqual(code, 3, said)
        for _ in range(5):  # one run in two ended with what other threads still used
            process, _ = self.start("--what=busy_exit_at_end")
            code, said = self.end(process, signal.SIGTERM)
            self.assertEqual(code, 3, said)
        process, _ = self.start("--what=throw_at_end")
        code, said = self.end(process, signal.SIGTERM)
        self.assertEqual(code, 143, said)
        self.assertIn("what was to run at the end has failed: the disk is full", " ".join(said.split()))

    def test_a_job_ends_where_what_runs_at_another_workers_end_fails(self):
        done = subprocess.run([*LAUNCH, "-n", "2", "-s", "1", self.probe(), "--what=throw_when_told"], env=clean(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=60)
        said = " ".join(done.stdout.split())
        self.assertEqual(done.returncode, 1, said)
        self.assertIn("what was to run at the end has failed: it threw something that is no std::exception", said)

    def test_what_needs_a_job_says_after_finish_that_it_has_left(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        job = subprocess.Popen([*LAUNCH, "-n", "2", "-s", "1", self.probe(), "--what=afterwards", f"--states={folder.name}/states"], env=clean(),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.kill)
        said, watchdog = [], threading.Timer(60, job.kill)
        self.addCleanup(watchdog.cancel)
        watchdog.start()
        for line in job.stdout:
            said.append(line)
            if "Step: " in line:
                break
        job.terminate()
        job.communicate(timeout=60)
        text = "".join(said)
        for call, operation in LEFT.items():
            with self.subTest(call):
                self.assertRegex(text, rf"(?m)^\[worker 0\] {call}: ({operation}): this worker has left its job$")
        for call in ("Create", "JobCounters"):
            with self.subTest(call):
                self.assertIn(f"[worker 0] {call}: this worker has left its job (Finish)", text)
        self.assertIn("SetGradientCompression: none", text)

    def test_a_signal_before_a_worker_has_joined_is_told_to_all(self):
        done = subprocess.run([*LAUNCH, "-n", "2", "-s", "1", self.probe(), "--what=early"], env=clean(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(done.stdout.count("the program was asked to end"), 2, done.stdout)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
