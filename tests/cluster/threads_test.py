"""What the stock programs tell OpenMP before it is loaded, unless the user does.

Usage: threads_test.py BIN_DIR
"""
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import labs  # noqa: E402

BIN = None
TOLD = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


class Threads(unittest.TestCase):
    def show(self, **environment):
        """The OpenMP settings that libgomp has read when the program runs, and the program's name while it does."""
        clean = {name: value for name, value in os.environ.items() if name not in TOLD}
        done = subprocess.run([BIN / "train_mnist", "--network=mlp", "--num-epochs=0", "--num-examples=64"], env=clean | {"OMP_DISPLAY_ENV": "VERBOSE"} | environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout)
        # The last word is that of the program which ran to its end.
        return dict(re.findall(r"(\w+) = '([^']*)'", done.stdout)), done.stdout.count("OPENMP DISPLAY ENVIRONMENT BEGIN")

    def test_waiting_threads_soon_sleep(self):
        settings, starts = self.show()
        self.assertEqual(settings["GOMP_SPINCOUNT"], "3000")
        self.assertEqual(starts, 2)

    def test_the_users_word_counts(self):
        settings, starts = self.show(GOMP_SPINCOUNT="7")
        self.assertEqual((settings["GOMP_SPINCOUNT"], starts), ("7", 1))
        settings, starts = self.show(OMP_WAIT_POLICY="ACTIVE")
        self.assertEqual((settings["OMP_WAIT_POLICY"], starts), ("ACTIVE", 1))

    def test_a_program_keeps_its_name_and_its_arguments(self):
        clean = {name: value for name, value in os.environ.items() if name not in TOLD}
        flags = ["--network=mlp", "--num-epochs=1000", "--disp-batches=1"]
        with subprocess.Popen([BIN / "train_mnist", *flags], env=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                next(line for line in process.stdout if "batch" in line)
                proc = pathlib.Path("/proc") / str(process.pid)
                self.assertEqual((proc / "comm").read_text().strip(), "train_mnist")
                self.assertEqual((proc / "cmdline").read_text().split("\0")[1:-1], flags)
            finally:
                process.kill()


def group_of_one_core(case):
    """The folder of a control group whose processes may use one core's time."""
    root = pathlib.Path("/sys/fs/cgroup")
    v2 = (root / "cgroup.controllers").exists()
    group = root / ("" if v2 else "cpu") / f"sluice-threads-test-{os.getpid()}"
    try:
        group.mkdir()
        case.addCleanup(group.rmdir)
        if v2:
            (group / "cpu.max").write_text("100000 100000")
        else:
            (group / "cpu.cfs_quota_us").write_text("100000")
    except OSError as error:
        labs.missing(f"no control group can be made: {error}")
    return group


class Quota(unittest.TestCase):
    def threads(self, **options):
        """Returns how many threads a program that trains has."""
        process = subprocess.Popen([BIN / "train_mnist", "--network=mlp", "--num-epochs=1000", "--disp-batches=1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, env={**os.environ, "GOMP_SPINCOUNT": "3000"}, **options)
        try:
            lines = (line for line in process.stdout if "batch" in line)
            next(lines), next(lines)  # every thread has begun
            return len(os.listdir(f"/proc/{process.pid}/task"))
        finally:
            process.kill()
            process.stdout.close()
            process.wait()

    def test_a_program_has_no_more_threads_than_its_quota_has_cores(self):
        group = group_of_one_core(self)
        bound = self.threads(preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}))
        self.assertEqual(self.threads(preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid()))), bound)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
