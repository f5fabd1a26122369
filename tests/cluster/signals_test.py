"""SIGTERM and Ctrl-C at any moment of a job, to launch.py and to each process: the right exit code, no orphan, no part of a file.

Which moments are tried is drawn from SLUICE_SIGNALS_SEED (1 unless set), SLUICE_SIGNALS_RUNS of them.

Usage: signals_test.py BIN_DIR
"""
import json
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from launch_test import LAUNCH, carrying  # noqa: E402

BIN = None
SEED = int(os.environ.get("SLUICE_SIGNALS_SEED", "1"))
RUNS = int(os.environ.get("SLUICE_SIGNALS_RUNS", "14"))
PATIENCE = 60   # for a job that hangs

# Moments by the line that tells of them; the signal goes out as soon as it is read.
MOMENTS = {
    "the first process starts": r"\[scheduler\] .* scheduler at ",
    "some have joined": r"joined, 2 of 5",
    "all have joined": r"the job is complete",
    "shards are being connected": r"worker is connected",
    "the optimiser is set": r"optimiser sgd",
    "a barrier ends": r"barrier '.*' released",
    "the first round closes": r"round 1 of ",
    "training": r"round 9 of ",
    "a batch is told": r"batch ",
    "an epoch ends and is saved": r"epoch 1 loss",
    "another is saved over the last run's": r"epoch 2 loss",
    "the end is told, files are written": r"final test accuracy",
    "a worker leaves": r"worker \d .* left",
    "a server leaves": r"server \d .* left",
}
# After these the job may be over before the signal arrives.
ENDING = ("the end is told, files are written", "a worker leaves", "a server leaves")
VICTIMS = ("launch.py", "launch.py", "scheduler", "server 1", "worker 0", "worker 1")


def pid_of(name, marker):
    """Returns the id of a process of the job, named as in "server 1"; None once it has ended."""
    role, _, rank = name.partition(" ")
    for pid in carrying(marker):
        try:
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"DMLC_ROLE={role}".encode() in environment and (not rank or f"DMLC_RANK={rank}".encode() in environment):
            return pid
    return None


def fault_of(path):
    """Empty when a file that a job wrote is whole."""
    data = path.read_bytes()
    if path.suffix == ".json":
        json.loads(data)
        return ""
    if len(data) < 8:
        return f"{len(data)} bytes"
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    end = 8 + length + max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
    return "" if len(data) == end else f"{len(data)} bytes in place of {end}"


class Signals(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def interrupt(self, marker, moment, victim, number):
        """Runs a job, and signals at the moment; its exit code, its output, and whether the signal found its victim."""
        # Only at the end may the job be over before the signal comes.
        epochs = 3 if moment in ENDING else 300
        command = [*LAUNCH, "-n", "3", "-s", "2", "--log-dir", str(self.folder / "logs"), "--env", f"SIGNALS_TEST={marker}",
                   "--env", "PS_VERBOSE=1", str(BIN / "train_mnist"), "--network=mlp", "--kv-store=dist_sync", f"--num-epochs={epochs}",
                   "--num-examples=1920", "--disp-batches=2", f"--model-prefix={self.folder}/{marker}",
                   f"--save-params={self.folder}/end.safetensors", f"--json={self.folder}/report.json"]
        job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        hung = threading.Timer(PATIENCE, job.kill)
        hung.start()
        lines, found, told = [], False, False
        with job.stdout:
            for line in job.stdout:
                lines.append(line)
                if not told and re.search(MOMENTS[moment], line):
                    told = True
                    pid = job.pid if victim == "launch.py" else pid_of(victim, f"SIGNALS_TEST={marker}")
                    while pid is None and moment not in ENDING and hung.is_alive():   # it is about to start
                        pid = pid_of(victim, f"SIGNALS_TEST={marker}")
                    found = pid is not None
                    if found:
                        os.kill(pid, number)
        code = job.wait()
        hung.cancel()
        self.assertTrue(told, f"never saw '{MOMENTS[moment]}':\n{''.join(lines)}")
        return code, "".join(lines), found

    def check(self, run, moment, victim, number):
        marker = f"{os.getpid()}-{run}"
        code, output, found = self.interrupt(marker, moment, victim, number)
        over = moment in ENDING or not found
        self.assertIn(code, (128 + number, 0) if over else (128 + number,), output)
        self.assertNotIn("Traceback", output)
        self.assertFalse(carrying(f"SIGNALS_TEST={marker}"), "processes are left")
        for path in self.folder.glob("*.*"):
            self.assertNotRegex(path.name, r"\.tmp$")
            self.assertEqual(fault_of(path), "", path.name)
        if code == 0:
            for epoch in (1, 2, 3):
                self.assertTrue((self.folder / f"{marker}-000{epoch}.safetensors").exists())

    def test_any_signal_at_any_moment_to_anybody(self):
        chance = random.Random(SEED)
        moments = list(MOMENTS)
        chance.shuffle(moments)
        for run in range(RUNS):
            moment = moments[run % len(moments)]
            victim = chance.choice(VICTIMS)
            number = chance.choice((signal.SIGINT, signal.SIGTERM))
            with self.subTest(seed=SEED, run=run, moment=moment, victim=victim, signal=number.name):
                self.check(run, moment, victim, number)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
