"""SIGTERM to a job that trains, as batch systems send it before they take the machine: rank 0 saves a checkpoint where the run is, the job
ends, and goes on from there to the last bit as if it had never stopped.

Usage: termination_test.py BIN_DIR
"""
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
from cluster import unwrapped  # noqa: E402
from launch_test import LAUNCH, carrying, command_of, end_of, start_job  # noqa: E402
from signals_test import pid_of  # noqa: E402

BIN = None
TRAIN = ["--network=mlp", "--num-examples=960", "--num-test-examples=64", "--num-steps=1200", "--batch-size=32", "--disp-batches=1"]
JOB = ["-n", "2", "-s", "2", "--grace", "60"]


class Termination(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.prefix, self.end = self.folder / "run", self.folder / "end.safetensors"

    def train(self, *flags):
        return [str(BIN / "train_mnist"), *TRAIN, *flags]

    def whole(self, *command):
        done = subprocess.run([*command, f"--save-params={self.folder}/whole.safetensors"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout)
        return (self.folder / "whole.safetensors").read_bytes()

    def interrupt(self, job, send, code):
        """Once it trains. Returns what it says from then on."""
        line = next((line for line in job.stdout if " batch " in line), None)
        self.assertIsNotNone(line, "the job ended before it trained")
        send()
        ended, said = end_of(job, 120)
        said = unwrapped(said)
        self.assertEqual(ended, code, said)
        saved = re.search(r"the run was asked to end and did so after \d+ steps; it can be gone on with from (\S+)", said)
        self.assertIsNotNone(saved, said)
        self.assertTrue(pathlib.Path(saved[1]).exists(), said)
        return said

    def test_one_process(self):
        """Ctrl-C too."""
        expected = self.whole(*self.train())
        flags = [f"--model-prefix={self.prefix}", f"--save-params={self.end}", "--resume"]
        for number in (signal.SIGTERM, signal.SIGINT):
            job = subprocess.Popen(self.train(*flags), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.addCleanup(job.stdout.close)
            self.addCleanup(job.kill)
            said = self.interrupt(job, lambda: job.send_signal(number), 128 + number)  # noqa: B023
            self.assertRegex(said, r"train_mnist: ended by SIG\w+.*: the run was asked to end")
            self.assertFalse(self.end.exists())
        done = subprocess.run(self.train(*flags), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("goes on after epoch", done.stdout)
        self.assertEqual(self.end.read_bytes(), expected)

    def test_a_job_whatever_of_it_is_signalled(self):
        expected = self.whole(*LAUNCH, *JOB, *self.train("--kv-store=dist_sync"))
        for victims in ("launch.py", "all of its processes", "worker 1"):
            with self.subTest(victims):
                marker = f"TERMINATION={os.getpid()}-{victims}"
                job = start_job(self, *JOB, "--env", marker, *self.train("--kv-store=dist_sync", f"--model-prefix={self.prefix}", "--resume"))

                def send():
                    pids = {"launch.py": lambda: [job.pid], "worker 1": lambda: [pid_of("worker 1", marker)]}.get(victims, lambda: carrying(marker))()  # noqa: B023
                    for pid in pids:
                        os.kill(pid, signal.SIGTERM)
                said = self.interrupt(job, send, 143)
                self.assertNotIn("Traceback", said)
                self.assertFalse(carrying(marker))
        job = start_job(self, *JOB, *self.train("--kv-store=dist_sync", f"--model-prefix={self.prefix}", f"--save-params={self.end}", "--resume"))
        code, said = end_of(job, 300)
        self.assertEqual(code, 0, said)
        self.assertEqual(self.end.read_bytes(), expected)


    def test_a_job_whose_agents_are_signalled(self):
        """As a batch system signals what it has started."""
        if shutil.which("mpirun") is None:
            labs.missing("there is no mpirun")
        marker = f"AGENTS_OF={os.getpid()}"
        name, _, value = marker.partition("=")
        job = start_job(self, *JOB, "--launcher", "mpi", *self.train("--kv-store=dist_sync", f"--model-prefix={self.prefix}"), env={**os.environ, name: value})

        def send():
            agents = [pid for pid in carrying(marker) if any(part.endswith(b"/agent.py") for part in command_of(pid)[1:2])]
            self.assertEqual(len(agents), 8)  # two processes for each
            for pid in agents:
                os.kill(pid, signal.SIGTERM)
        said = self.interrupt(job, send, 143)
        self.assertIn("launch.py: SIGTERM: stopping the job", said)
        self.assertNotIn("was lost", said)
        self.assertFalse(carrying(marker))


class Grace(unittest.TestCase):
    """--grace says how long launch.py waits for a worker that takes its time."""

    def end(self, script, *flags):
        job = start_job(self, "-n", "1", "-s", "1", *flags, "sh", "-c", script)
        next(line for line in job.stdout if "ready" in line)
        job.send_signal(signal.SIGTERM)
        return end_of(job, 60)

    def test_a_worker_has_the_time_that_it_is_given(self):
        code, said = self.end("trap 'sleep 7; echo it is saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done", "--grace", "50")
        self.assertEqual(code, 143)
        self.assertIn("[worker 0] it is saved", said)

    def test_what_runs_behind_a_shell_is_asked_to_end_as_well(self):
        """The shell waits for it: it would be killed with it once the time is over."""
        inner = 'trap "echo it is saved; exit 0" TERM; echo ready; while :; do sleep 0.1; done'
        code, said = self.end(f"trap 'echo the shell goes on' TERM; sh -c '{inner}'; exit 0", "--grace", "3600")
        self.assertEqual(code, 143)
        self.assertIn("[worker 0] it is saved", said)
        self.assertIn("[worker 0] the shell goes on", said)

    def test_no_time_is_none(self):
        code, said = self.end("trap '' TERM; echo ready; while :; do sleep 0.1; done", "--grace", "0")
        self.assertEqual(code, 143, said)
        code, said = self.end("trap 'sleep 4; echo it is saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done", "--grace", "0")
        self.assertEqual(code, 143, said)
        self.assertNotIn("it is saved", said)  # without --grace it has five seconds

    def test_asked_twice_there_is_no_more(self):
        job = start_job(self, "-n", "1", "-s", "1", "--grace", "3600", "sh", "-c", "trap 'echo asked' TERM; echo ready; while :; do sleep 0.1; done")
        next(line for line in job.stdout if "ready" in line)
        job.send_signal(signal.SIGINT)
        next(line for line in job.stdout if "asked" in line)
        job.send_signal(signal.SIGINT)
        code, said = end_of(job, 60)
        self.assertEqual(code, 130, said)

    def test_batch_systems_are_told(self):
        def shown(launcher, *flags):
            return subprocess.run([*LAUNCH, "-n", "1", "--launcher", launcher, "--grace", "29.5", "--dry-run", *flags, "true"], capture_output=True, text=True,
                                  timeout=60, check=True).stdout
        self.assertIn(" --signal=TERM@30 ", shown("slurm"))
        self.assertEqual(shown("sge").count(" -notify "), 2)
        self.assertEqual(shown("kubernetes", "--image=x").count('"terminationGracePeriodSeconds": 30'), 3)
        for launcher, flags in (("slurm", ()), ("sge", ())):
            self.assertRegex(shown(launcher, *flags), r"agent\.py --call \S+ --grace")
            self.assertEqual(shown(launcher, *flags).count(" SLUICE_GRACE=29.5 "), 2)  # scheduler and server

    def test_a_grace_that_is_none_is_refused(self):
        for value in ("-1", "nan", "1e9", "soon"):
            done = subprocess.run([*LAUNCH, "-n", "1", "--grace", value, "true"], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--grace", done.stderr)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
