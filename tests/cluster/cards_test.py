"""A training program with cards (of a test machine): it trains as on CPUs, and whoever ends it in the middle of work finds it gone.

Usage: cards_test.py BIN_DIR
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import safetensors_file  # noqa: E402
from cluster import unwrapped  # noqa: E402
from launch_test import LAUNCH, carrying  # noqa: E402
from signals_test import pid_of  # noqa: E402

BIN = None
PATIENCE = 60   # for a program that hangs
SOON = 15       # within which a program ends that is told to
STORES = ("local", "device", "nccl", "dist_sync", "dist_device_sync")
DISTRIBUTED = ("dist_sync", "dist_device_sync", "dist_async")


class Cards(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.marker = f"CARDS_TEST={os.getpid()}-{self.id()}"

    def command(self, program, store, network, *flags):
        command = [str(BIN.parent / program), f"--network={network}", f"--kv-store={store}", "--batch-size=8", *flags]
        if store.startswith("dist"):
            command = [*LAUNCH, "-n", "2", "-s", "1", "--env", self.marker, *command]
        return command

    def weights(self, program, store, *devices):
        path = self.folder / f"{store}.safetensors"
        workers = 2 if store.startswith("dist") else 1
        command = self.command(program, store, "lenet_avg", *devices, "--num-epochs=1", "--num-examples=48", "--num-test-examples=8",
                               f"--batch-size={16 // workers}", "--seed=1", "--lr=0.05", f"--save-params={path}")
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout)
        return safetensors_file.load(path)

    def test_training_on_cards_equals_training_on_cpus(self):
        expected = self.weights("bin/train_mnist", "local", "--num-devices=2")
        for store in STORES:
            with self.subTest(store=store):
                difference, name = safetensors_file.worst_difference(self.weights("tests/train_mnist_emulated", store, "--gpus=0,1"), expected)
                self.assertLess(difference, 1e-5, name)

    def end(self, store, act):
        """Trains on two cards without end, and calls act(job) while they work; returns the exit code and the output."""
        command = self.command("tests/train_mnist_emulated", store, "linear", "--gpus=0,1", "--num-epochs=1000", "--disp-batches=1")
        lines, acted = [], False
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as job:
            hung = threading.Timer(PATIENCE, job.kill)
            hung.start()
            for line in job.stdout:
                lines.append(line)
                if not acted and re.search(r"batch 5", line):
                    acted = True
                    hung.cancel()
                    hung = threading.Timer(SOON, job.kill)
                    hung.start()
                    act(job)
            code = job.wait()
            hung.cancel()
        output = unwrapped("".join(lines))
        self.assertTrue(acted, output)
        self.assertFalse(carrying(self.marker), "processes are left")
        return code, output

    def test_ctrl_c_ends_a_program_whose_cards_have_work(self):
        for store in ("device", "nccl", *DISTRIBUTED):
            for number in (signal.SIGINT, signal.SIGTERM):
                with self.subTest(store=store, signal=number.name):
                    code, output = self.end(store, lambda job: job.send_signal(number))
                    self.assertIn(code, (-number, 128 + number), output)

    def test_a_killed_worker_whose_cards_have_work_ends_the_job(self):
        def kill_a_worker(job):
            os.kill(pid_of("worker 1", self.marker), signal.SIGKILL)
        for store in DISTRIBUTED:
            with self.subTest(store=store):
                code, output = self.end(store, kill_a_worker)
                self.assertEqual(code, 128 + signal.SIGKILL, output)
                self.assertRegex(output, r"worker 1 .*(SIGKILL|killed|signal 9)")


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
