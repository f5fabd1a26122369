"""However launch.py ends, nothing of its job is left, wherever it hides; and nothing else is harmed.

Usage: cleanup_test.py BIN_DIR
"""
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from launch_test import LAUNCH  # noqa: E402

BIN = None
PATIENCE = 20

# A worker whose grandchild has no environment, a session of its own and no parent, and holds its output open.
HIDE = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", sys.argv[1]], {})
    os._exit(0)
os.wait()
print("hidden", flush=True)
time.sleep(float(sys.argv[2]))
"""


def stat(pid):
    """(state, parent)"""
    try:
        state, parent = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[:2]
    except OSError:
        return "gone", 0
    return state, int(parent)


def pids():
    return [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()]


def sleepers(duration):
    found = []
    for pid in pids():
        try:
            if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() == f"sleep\0{duration}\0".encode() and stat(pid)[0] not in "ZX":
                found.append(pid)
        except OSError:
            continue
    return found


def children(pid):
    return [child for child in pids() if stat(child)[1] == pid]


class Cleanup(unittest.TestCase):
    def setUp(self):
        self.duration = f"3600.{os.getpid()}{len(self.id())}"
        self.addCleanup(lambda: [os.kill(pid, signal.SIGKILL) for pid in sleepers(self.duration)])

    def start(self, *worker, until="hidden", by=()):
        job = subprocess.Popen([*by, *LAUNCH, "-n", "1", "-s", "1", *worker], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"})
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        for line in job.stdout:
            if until in line:
                return job
        self.fail("the worker did not start")

    def start_hiding(self, seconds=3600):
        job = self.start(sys.executable, "-c", HIDE, self.duration, str(seconds))
        if seconds:
            self.wait_for_sleepers(1)
        return job

    def wait_for_sleepers(self, count):
        end = time.monotonic() + PATIENCE
        while len(sleepers(self.duration)) != count:
            self.assertLess(time.monotonic(), end, f"{sleepers(self.duration)} in place of {count}")
            time.sleep(0.05)

    def test_ctrl_c(self):
        job = self.start_hiding()
        job.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(PATIENCE), 130)
        self.assertFalse(sleepers(self.duration))

    def test_kill_9_of_launch_py(self):
        job = self.start_hiding()
        job.kill()
        job.wait(PATIENCE)
        self.wait_for_sleepers(0)

    def test_kill_9_of_its_runner(self):
        job = self.start_hiding()
        (runner,) = children(job.pid)
        os.kill(runner, signal.SIGKILL)
        self.assertEqual(job.wait(PATIENCE), 137)
        self.assertFalse(sleepers(self.duration))

    def test_a_worker_that_ends_well_and_leaves_something_running(self):
        job = self.start_hiding(seconds=0)
        self.assertEqual(job.wait(PATIENCE), 0)
        self.assertFalse(sleepers(self.duration))

    def test_children_of_the_shell_that_became_launch_py_live_on(self):
        shell = ["/bin/sh", "-c", f'sleep {self.duration} & exec "$@"', "sh"]
        for victim in (signal.SIGINT, signal.SIGKILL):
            with self.subTest(victim.name):
                job = self.start("/bin/sh", "-c", "echo here; exec sleep 3600", until="here", by=shell)
                (bystander,) = sleepers(self.duration)
                (runner,) = (pid for pid in children(job.pid) if pid != bystander)
                os.kill(job.pid if victim == signal.SIGINT else runner, victim)
                job.wait(PATIENCE)
                self.assertEqual(sleepers(self.duration), [bystander])
                os.kill(bystander, signal.SIGKILL)
                self.wait_for_sleepers(0)

    def test_orphans_that_end_leave_no_zombies(self):
        job = self.start("/bin/sh", "-c", "(sleep 0.3 &); echo here; exec sleep 3600", until="here")
        (runner,) = children(job.pid)
        end = time.monotonic() + PATIENCE
        while len(children(runner)) > 3:  # scheduler, server, worker
            self.assertLess(time.monotonic(), end, "a zombie is left")
            time.sleep(0.05)
        job.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(PATIENCE), 130)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
