#!/usr/bin/env python3
"""Tests tools/gpu_suite.py on a machine without a GPU: what is bundled is complete, and every step says why it fails."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import gpu_suite

SYSTEM = ("libc.so", "libm.so", "libdl.so", "librt.so", "libpthread.so", "libstdc++.so", "libgcc_s.so", "libresolv.so")


class Weights(unittest.TestCase):
    def test_float32_tensors_are_read_by_name(self):
        header = {"__metadata__": {"format": "x"},
                  "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                  "ids": {"dtype": "I64", "shape": [1], "data_offsets": [8, 16]},
                  "b": {"dtype": "F32", "shape": [1], "data_offsets": [16, 20]}}
        text = json.dumps(header).encode()
        with tempfile.NamedTemporaryFile() as file:
            file.write(struct.pack("<Q", len(text)) + text + struct.pack("<2fq1f", 1.5, -2, 7, 0.25))
            file.flush()
            self.assertEqual(gpu_suite.read_weights(file.name), {"a": (1.5, -2.0), "b": (0.25,)})


class PyTorchJobs(unittest.TestCase):
    def test_a_job_that_is_none_is_named(self):
        for job in ("lenet", "lenet:0", "lenet:x", ":64", "lenet:64:eager"):
            run = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "bench_pytorch.py"), "--jobs", f"lenet:64,{job}"],
                                 capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(f"'{job}' is no NETWORK:BATCH", run.stderr)


class BundleCommand(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.inside = os.path.join(cls.folder, "sluice-gpu")
        gpu_suite.pack(cls.inside)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_every_library_but_the_systems_is_inside(self):
        libraries = os.path.join(self.inside, "build", "lib")
        files = [os.path.join(self.inside, "build", part, name)
                 for part in ("bin", "tests", "lib") for name in os.listdir(os.path.join(self.inside, "build", part))]
        self.assertGreater(len(files), 10)
        for file in files:
            listed = subprocess.run(["ldd", file], capture_output=True, text=True, check=True,
                                    env={**os.environ, "LD_LIBRARY_PATH": libraries}).stdout
            for line in listed.splitlines():
                name, arrow, place = line.strip().partition(" => ")
                if arrow and not name.startswith(SYSTEM):
                    self.assertTrue(place.startswith(libraries), f"{file}: {line}")

    @unittest.skipIf(os.path.exists("/dev/nvidia0"), "there is a GPU")
    def test_without_a_gpu_each_step_says_why_and_what_needs_none_passes(self):
        report = os.path.join(self.folder, "report")
        run = subprocess.run([os.path.join(self.inside, "tools", "gpu_suite.py"), "run", "--report", report, "--seconds", "60"],
                             capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(run.returncode, 1, run.stderr)
        with open(os.path.join(report, "report.md"), encoding="utf-8") as text:
            lines = text.read().splitlines()
        self.assertEqual(run.stdout.splitlines(), lines)
        steps = {line.split("**")[1]: line for line in lines if line.startswith("- **")}
        self.assertIn("trained for 40 steps", steps["lenet_avg on a CPU"])
        self.assertIn("FAILED: tests were skipped", steps["contract of devices"])
        for step in (*(f"lenet_avg with {store}" for store in gpu_suite.STORES), "PyTorch", "lenet, batch 64", "update of one array", "update of many arrays",
                     "sum of two contexts, update and broadcast", "copies over PCIe", "round trip", "language model", "PyTorch in TF32",
                     "lenet, batch 1024, TF32", "facts"):
            self.assertIn("FAILED", steps[step])
        self.assertIn("CUDA", steps["lenet_avg with device"])

    def test_time_that_is_over_stops_nothing_and_is_said(self):
        report = os.path.join(self.folder, "late")
        run = subprocess.run([os.path.join(self.inside, "tools", "gpu_suite.py"), "run", "--report", report, "--seconds", "1"],
                             capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("**contract of devices**: not run, time is over", run.stdout)


if __name__ == "__main__":
    unittest.main()
