"""A job that is just being submitted when launch.py ends is taken back, by stand-ins of sbatch and qsub that are slow to answer.

Usage: submission_test.py BIN_DIR
"""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from launch_test import await_that, carrying, end_launch, end_of, start_job  # noqa: E402

SLOW = """#!/bin/sh
cd {folder}
touch asked
while [ ! -e may-answer ]; do sleep 0.05; done
echo some banner
echo '{answer}'
"""
TAKES_BACK = """#!/bin/sh
echo "$*" >>{folder}/taken-back
"""


class Submissions(unittest.TestCase):
    def await_file(self, path):
        await_that(self, path.exists, f"no {path.name}")

    def check(self, launcher, tools, answer, taken_back):
        for kill, number, expected in (("launch", signal.SIGINT, 130), ("launch", signal.SIGKILL, -9), ("runner", signal.SIGKILL, 137)):
            with self.subTest(kill=kill, number=number), tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                for tool, text in zip(tools, (SLOW, TAKES_BACK)):
                    (folder / tool).write_text(text.format(folder=folder, answer=answer))
                    (folder / tool).chmod(0o755)
                environment = {key: value for key, value in os.environ.items() if key != "SLURM_JOB_ID"}
                job = start_job(self, "--launcher", launcher, "-n", "2", "true", cwd=folder, env={**environment, "PATH": f"{folder}:{os.environ['PATH']}"})
                self.await_file(folder / "asked")
                end_launch(job, kill, number)
                time.sleep(0.5)  # it has not answered by then
                (folder / "may-answer").touch()
                code, said = end_of(job, 20)
                self.assertEqual(code, expected, said)
                self.await_file(folder / "taken-back")
                self.assertEqual(set((folder / "taken-back").read_text().splitlines()), {taken_back})
                self.assertEqual(list(folder.glob(".sluice*")), [])

    def test_kill_9_at_any_moment_of_the_beginning(self):
        """launch.py is killed: whatever its runner has made by then is taken back, also where it looks for what to kill for long."""
        with contextlib.ExitStack() as crowd:
            for _ in range(300):
                other = subprocess.Popen(["sleep", "600"])
                crowd.callback(other.wait)
                crowd.callback(other.kill)
            for launcher, kills in (("slurm", 20), ("local", 20)):
                for moment in range(kills):
                    with self.subTest(launcher=launcher, moment=moment), tempfile.TemporaryDirectory() as name:
                        self.kill_at(pathlib.Path(name), launcher, 0.05 + 0.015 * moment)

    def kill_at(self, folder, launcher, seconds):
        for tool, text in (("sbatch", "touch {folder}/asked\nsleep 0.3\necho 42"), ("scancel", "touch {folder}/taken-back"), ("squeue", "echo RUNNING")):
            (folder / tool).write_text("#!/bin/sh\n" + text.format(folder=folder) + "\n")
            (folder / tool).chmod(0o755)
        marker = f"SUBMISSION=test-{os.getpid()}-{folder.name}"
        (folder / "tmp").mkdir()
        environment = {key: value for key, value in os.environ.items() if key != "SLURM_JOB_ID"}
        job = start_job(self, "--launcher", launcher, "-n", "1", "sleep", "60",
                        env={**environment, "SUBMISSION": marker.partition("=")[2], "TMPDIR": str(folder / "tmp"), "PATH": f"{folder}:{os.environ['PATH']}"})
        with self.assertRaises(subprocess.TimeoutExpired):
            job.wait(seconds)
        job.kill()
        end_of(job, 20)
        await_that(self, lambda: not carrying(marker), "some of its processes live on")
        self.assertEqual((folder / "asked").exists(), (folder / "taken-back").exists())
        # Python tries a folder for temporary files out with a file of four bytes, which it may leave when it is killed.
        self.assertEqual([path for path in (folder / "tmp").iterdir() if path.is_dir() or path.stat().st_size > 4], [])

    def test_slurm(self):
        self.check("slurm", ("sbatch", "scancel"), "42", "42")
        self.check("slurm", ("sbatch", "scancel"), "42;cluster", "42")

    def test_grid_engine(self):
        self.check("sge", ("qsub", "qdel"), "42.1-2:1", "42")

    def start(self, *arguments, **tools):
        """With Slurm's programs replaced by scripts."""
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        folder = pathlib.Path(scratch.name)
        for tool, text in tools.items():
            (folder / tool).write_text(text.format(folder=folder))
            (folder / tool).chmod(0o755)
        environment = {key: value for key, value in os.environ.items() if key != "SLURM_JOB_ID"}
        return folder, start_job(self, "--launcher", "slurm", "-n", "2", *arguments, "true", env={**environment, "PATH": f"{folder}:{os.environ['PATH']}"})

    def test_one_that_never_answers(self):
        for kill, number, expected in (("launch", signal.SIGINT, 130), ("runner", signal.SIGKILL, 137)):
            with self.subTest(kill=kill):
                folder, job = self.start(sbatch="#!/bin/sh\ntouch {folder}/asked\nexec sleep 600\n")
                self.await_file(folder / "asked")
                end_launch(job, kill, number)
                code, said = end_of(job, 15)
                self.assertEqual(code, expected, said)
                self.assertIn("sbatch has not said within 3 s which job it submitted; one may be left in the queue", said)

    def test_an_answer_that_names_no_job(self):
        for answer in ('Submitted "x"', "", " "):
            _, job = self.start(sbatch=f"#!/bin/sh\necho '{answer}'\n")
            code, said = end_of(job, 15)
            self.assertEqual(code, 2, said)
            self.assertIn(f"its answer names no job: {answer}".strip(), said)

    def test_a_batch_system_that_does_not_say_how_the_job_is(self):
        """The time that is given is over all the same."""
        _, job = self.start("--timeout", "2", sbatch="#!/bin/sh\necho 42\n", squeue="#!/bin/sh\nexec sleep 600\n", scancel="#!/bin/sh\n")
        code, said = end_of(job, 30)
        self.assertEqual(code, 1, said)
        self.assertIn("not all agents are there within 2 s: 0 of 4; the job's state: squeue took more than 5 s", said)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
