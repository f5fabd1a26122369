"""What every launcher does: one suite, which a class with hosts of its own takes over."""
import os
import re
import signal
import time

import labs
from launch_test import end_of

BIN = None  # a test program sets it
NASTY = ["a b", "quo'te", 'dou"ble', "$HOME", ";ls", "`id`", "line\nbreak", "\u00fc\u4e2d", "*", "!x", "\\", "", "-n", "%d", "~", "\udcff"]
TRAIN = ["--network=lenet", "--kv-store=dist_sync", "--num-steps=40", "--num-examples=2000"]
LONG = ["--network=mlp", "--kv-store=dist_sync", "--num-epochs=1000", "--disp-batches=5"]
SHARED = ("/tmp", "/dev/shm")


class Jobs:
    hosts = 3
    workers, servers = 3, 2

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(labs.or_skip(cls.make_lab))

    def setUp(self):
        self.before = self.names()

    @staticmethod
    def names():
        """But a compiler's."""
        return {os.path.join(folder, name) for folder in SHARED for name in os.listdir(folder) if not re.fullmatch(r"cc\w{6}\..*", name)}

    def program(self, name):
        return BIN / name

    def launch(self, *arguments):
        raise NotImplementedError

    def start(self, *arguments, until=None, keeps_logs=True):
        job = self.launch("-n", str(self.workers), "-s", str(self.servers), *(["--log-dir", self.log_dir()] if keeps_logs else []), *arguments)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.wait)
        self.addCleanup(self.lab.kill_inside, 0, "launch", signal.SIGKILL)
        for line in job.stdout if until else ():
            if until in line:
                return job
        if until:
            self.fail("the job ended before it trained")
        return job

    def log_dir(self):
        return self.lab.folder / "logs"

    def run_job(self, *arguments, seconds=120):
        return end_of(self.start(*arguments), seconds)

    def assert_nothing_left(self, seconds=10):
        end = time.monotonic() + seconds
        while left := self.left():
            self.assertLess(time.monotonic(), end, f"left: {left}")
            time.sleep(0.1)

    def left(self):
        processes = {index: running for index in range(self.hosts) if (running := self.lab.processes(index))}
        return processes or self.names() - self.before

    def start_long(self, **options):
        return self.start(self.program("train_mnist"), *LONG, until="batch", **options)

    # --- The tests ---

    def test_40_steps_of_lenet(self):
        code, said = self.run_job(self.program("train_mnist"), *TRAIN)
        self.assertEqual(code, 0, said)
        self.assertIn("[worker 0] final test accuracy", said)
        self.assertIn(f"dist_sync, {self.workers} workers", said)
        self.assert_nothing_left()

    def test_a_killed_worker(self):
        job = self.start_long()
        index, pid = next((index, pid) for index in range(self.hosts - 1, -1, -1) for pid, command in self.lab.processes(index).items() if command.startswith(str(self.program("train_mnist"))))
        self.lab.inside(index, "kill", "-9", str(pid))
        code, said = end_of(job, 15)
        self.assertEqual(code, 137, said)
        self.assertRegex(said, rf"launch.py: worker \d \(host h{index + 1}, pid \d+\) ended with signal SIGKILL; it")
        self.assert_nothing_left()

    def test_ctrl_c(self):
        job = self.start_long(keeps_logs=False)
        self.lab.kill_inside(0, "tools/launch.py", signal.SIGINT)
        code, said = end_of(job, 15)
        self.assertEqual(code, 130, said)
        self.assert_nothing_left()

    def test_kill_9_of_launch_py(self):
        for which in ("tools/launch.py", "launcher/runner.py"):
            with self.subTest(which):
                job = self.start_long()
                self.assertEqual(self.lab.kill_inside(0, which, signal.SIGKILL), 1)
                self.assert_nothing_left()
                end_of(job, 10)

    def test_arguments_and_variables_arrive_unchanged(self):
        value = "a b'\"$HOME;\n\u00fc"
        script = "import os, sys; print(ascii(sys.argv[1:]), ascii(os.environ['NAMED']))"
        code, said = self.run_job("--env", f"NAMED={value}", "/usr/bin/python3", "-c", script, *NASTY)
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count(f"{ascii(NASTY)} {ascii(value)}"), self.workers, said)

    def test_no_secret_on_a_command_line(self):
        job = self.start_long()
        environments, lines = "", ""
        for index in range(self.hosts):
            lines += self.lab.inside(index, "ps", "-ewwo", "args")
            for pid in self.lab.processes(index):
                environments += self.lab.inside(index, "cat", f"/proc/{pid}/environ").replace("\0", "\n")
        secrets = set(re.findall(r"^SLUICE_(?:JOB_SECRET|LAUNCH_TOKEN)=([0-9a-f]{64})$", environments, flags=re.M))
        self.assertGreaterEqual(len(secrets), 1)
        for secret in secrets:
            self.assertNotIn(secret, lines)
        self.lab.kill_inside(0, "tools/launch.py", signal.SIGINT)
        end_of(job, 15)
