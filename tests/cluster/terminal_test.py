"""What people see on a terminal: few lines, calm ones, none wider than 80 columns.

Usage: terminal_test.py BIN_DIR
"""
import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from launch_test import LAUNCH, LONG  # noqa: E402

BIN = None
COLUMNS = 80


def run(*command, timeout=60, **environment):
    return subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
                          env={**os.environ, "COLUMNS": str(COLUMNS), **environment})


class Terminal(unittest.TestCase):
    def assert_fits(self, text):
        for line in text.splitlines():
            self.assertLessEqual(len(line), COLUMNS, line)

    def test_ctrl_c_is_one_line_that_says_where_the_logs_are(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch, "logs")
            errors = self.end_by_ctrl_c("--log-dir", str(folder))
            self.assertEqual("".join(errors.split()), "".join(f"launch.py: Ctrl-C: stopping the job; its logs are in {folder}".split()))
            self.assertEqual({path.name for path in folder.iterdir()},
                             {"scheduler.log", "server-0.log", "server-1.log", "worker-0.log", "worker-1.log"})
            self.assertIn("SIGTERM", (folder / "server-0.log").read_text())

    def test_ctrl_c_leaves_no_logs_that_nobody_named(self):
        with tempfile.TemporaryDirectory() as scratch:
            self.assertEqual(self.end_by_ctrl_c(TMPDIR=scratch), "launch.py: Ctrl-C: stopping the job\n")
            self.assertEqual(list(pathlib.Path(scratch).iterdir()), [])

    def end_by_ctrl_c(self, *flags, **variables):
        """What launch.py says of it."""
        job = subprocess.Popen([*LAUNCH, "-n", "2", "-s", "2", *flags, str(BIN / "train_mnist"), *LONG], env={**os.environ, **variables},
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        job.stdout.readline()
        while "batch" not in job.stdout.readline():
            self.assertIsNone(job.poll())
        job.send_signal(signal.SIGINT)
        output, errors = job.communicate(timeout=30)
        self.assertEqual(job.returncode, 130)
        for alarm in ("ERROR", "SIGTERM"):
            self.assertNotIn(alarm, output)
        self.assert_fits(output)
        return errors

    def test_a_wrong_flag_of_a_worker_alarms_about_nothing_else(self):
        done = run(*LAUNCH, "-n", 1, "-s", 1, BIN / "train_mnist", "--kv-store=dist_sync", "--lr=nan")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertNotIn("SIGTERM", done.stdout)
        self.assertNotIn("[server 0]", done.stdout)
        self.assert_fits(done.stdout)

    def test_stores_that_join_no_job_need_no_scheduler(self):
        for kind, workers in (("local", 2), ("device", 1)):
            with self.subTest(kind):
                done = run(*LAUNCH, "-n", workers, "-s", 1, "/bin/sh", "-c",
                           '"$0" "$@" && date +"done at %s"', BIN / "train_mnist", f"--kv-store={kind}", "--num-steps=2",
                           PATH=f"{BIN}:{os.environ['PATH']}")
                self.assertEqual(done.returncode, 0, done.stdout)
                ended = max(int(line.split()[-1]) for line in done.stdout.splitlines() if "done at" in line)
                self.assertLess(time.time() - ended, 10)  # FINISH_GRACE is 15 s
                self.assertIn("none joined the job", done.stdout)
                self.assertNotIn("ERROR", done.stdout)
                self.assert_fits(done.stdout)

    def test_a_job_that_is_joined_and_left_says_nothing_of_the_kind(self):
        done = run(*LAUNCH, "-n", 2, "-s", 2, BIN / "train_mnist", "--kv-store=dist_sync", "--num-epochs=1", "--network=mlp", "--top-k=5",
                   "--num-examples=1280", timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("launch.py:", done.stdout)
        self.assertIn("dist_sync, 2 workers x 1 device\n", done.stdout)
        self.assert_fits(done.stdout)

    def test_nobody_comes(self):
        done = run(*LAUNCH, "-n", 3, "-s", 2, "--env", "SLUICE_RENDEZVOUS_TIMEOUT=1", "/bin/sleep", 60, PATH=f"{BIN}:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("not everybody joined within 1 s", done.stdout)
        self.assert_fits(done.stdout)

    def test_errors_and_help_of_programs(self):
        for arguments in (["--gpus=0"], ["--gpus=x"], ["--help"], ["--kv-store=nosuch"], ["--kv-store=dist_sync"], ["--num-steps=1"],
                          ["--lr=1e9999"], ["--network=nosuch"]):
            with self.subTest(arguments):
                done = run(BIN / "train_mnist", *arguments, CUDA_VISIBLE_DEVICES="")
                self.assertTrue(done.stdout)
                self.assert_fits(done.stdout)
        self.assertIn("--wd (double, default 0.0001)\n", run(BIN / "train_mnist", "--help").stdout)
        self.assertIn("local, 1 worker x 1 device\n", run(BIN / "train_mnist", "--num-steps=1").stdout)

    def test_nobody_reads_what_launch_py_says(self):
        for stream in ("stdout", "stderr"):
            with self.subTest(stream):
                read_end, write_end = os.pipe()
                os.close(read_end)
                with os.fdopen(write_end, "wb") as pipe:
                    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: pipe}
                    done = subprocess.run([*LAUNCH, "-n", "1", "-s", "1", "sh", "-c", "echo a; exit 7"], timeout=60, **streams)
                self.assertEqual(done.returncode, 7)

    def test_standard_streams_that_are_closed_and_ends_of_children_that_are_ignored(self):
        launch = " ".join(map(str, LAUNCH))
        for how in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            with self.subTest(how):
                done = subprocess.run(["sh", "-c", f"{launch} -n 1 -s 1 sh -c 'exit 7' {how}"], capture_output=True, timeout=60)
                self.assertEqual(done.returncode, 7, done.stderr)
        done = subprocess.run([*LAUNCH, "-n", "1", "-s", "1", "sh", "-c", "exit 7"], capture_output=True, timeout=60,
                              preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(done.returncode, 7, done.stderr)

    def test_a_log_that_cannot_be_written_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "worker-0.log"))
            done = subprocess.run([*LAUNCH, "-n", "1", "-s", "1", "--log-dir", folder, "true"], capture_output=True, text=True, timeout=60)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("worker-0.log", done.stderr)

    def test_every_program_says_its_version(self):
        for program in ([BIN / "sluice_server"], [BIN / "sluice_scheduler"], [BIN / "train_mnist"], LAUNCH):
            done = run(*program, "--version")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"\ASluice \d+\.\d+\.\d+\n\Z")

    def test_every_program_says_what_it_and_the_machine_have(self):
        for program in ("sluice_server", "sluice_scheduler", "train_mnist"):
            done = run(BIN / program, "--check-build")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"\ASluice \d+\.\d+\.\d+\n\nThis build has\n  compiler +\w+ [\d.]+, ")
            self.assertRegex(done.stdout, r"\n  stores +local, device, (nccl, )?dist_sync,")
            self.assertRegex(done.stdout, r"\n\nThis machine has\n  cores +\d+ \(")
            self.assertEqual("\n  GPUs  " in done.stdout, program == "train_mnist", done.stdout)
            self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80, done.stdout)

    def test_a_program_without_flags_lists_none(self):
        for program in ("sluice_server", "sluice_scheduler"):
            done = run(BIN / program, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn(f"Usage: {program}\n", done.stdout)
            self.assertNotIn("Flags", done.stdout)

    def test_ctrl_c_begins_a_line_of_its_own_below_the_progress_bar(self):
        terminal, end = pty.openpty()
        training = subprocess.Popen([str(BIN / "train_mnist"), "--network=mlp", "--num-epochs=1000"], stdin=end, stdout=end, stderr=end)
        os.close(end)
        seen = b""
        while b"img/s" not in seen:
            seen += os.read(terminal, 4096)
        training.send_signal(signal.SIGINT)
        self.assertEqual(training.wait(30), 130)
        while b"ended by" not in seen:
            seen += os.read(terminal, 4096)
        os.close(terminal)
        self.assertRegex(seen, rb"\nended by SIGINT")

    def test_launch_py_used_wrongly_and_its_help(self):
        for arguments in (["--help"], ["-n", "1"], ["-n", "1", "/no/such/program"], ["-n", "1", "-H", "/no/hosts", "x"],
                          ["-n", "1", "--env-worker", "SLUICE_JOB_SECRET=a", "x"], ["-n", "0", "x"], ["-n", "1", "--launcher", "nosuch", "x"]):
            with self.subTest(arguments):
                self.assert_fits(run(*LAUNCH, *arguments).stdout)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
