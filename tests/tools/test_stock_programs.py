"""Scheduler and server are small: they carry no library that only computing needs. And what packs programs for other machines.

Usage: test_stock_programs.py BIN cuda|no_cuda   (the twin that this build has)
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BIN = TWIN = None
COMPUTING = ("libcuda", "libcudart", "libcublas", "libcudnn", "libnccl", "libdnnl", "libgomp")


def linked(program):
    return subprocess.run(["ldd", BIN / program], capture_output=True, text=True, check=True).stdout


def calls_cuda(program):
    """CUDA's runtime is linked statically, where ldd does not see it."""
    symbols = subprocess.run(["nm", BIN / program], capture_output=True, text=True, check=True).stdout
    return "cudaGetDeviceCount" in symbols


class StockPrograms(unittest.TestCase):
    def test_nothing_that_computes_is_linked(self):
        for program in ("sluice_scheduler", "sluice_server"):
            with self.subTest(program=program):
                self.assertEqual([name for name in COMPUTING if name in linked(program)], [])
                self.assertFalse(calls_cuda(program))

    def test_a_worker_is_what_it_is_compared_with(self):
        self.assertIn("libdnnl", linked("train_mnist"))
        self.assertEqual(calls_cuda("train_mnist"), TWIN == "cuda")

    def test_a_program_starts_where_no_driver_is(self):
        self.assertNotIn("libcuda", linked("train_mnist"))


class Packed(unittest.TestCase):
    """tools/pack_programs.sh takes the programs of its own checkout."""

    PACK = pathlib.Path(__file__).resolve().parents[2] / "tools/pack_programs.sh"

    def setUp(self):
        if not (self.PACK.parents[1] / "build/bin/sluice_server").exists():
            self.skipTest("the checkout's build/bin has no programs; this build lies elsewhere")

    def pack(self, *arguments):
        return subprocess.run([self.PACK, *arguments], capture_output=True, text=True, check=False)

    def test_what_a_program_needs_comes_with_it(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.pack(folder, "sluice_server").returncode, 0)
            program, libraries = pathlib.Path(folder, "bin/sluice_server"), pathlib.Path(folder, "lib")
            there = subprocess.run(["ldd", program], env=os.environ | {"LD_LIBRARY_PATH": str(libraries)}, capture_output=True,
                                   text=True, check=True).stdout
            self.assertIn(f"{libraries}/libzmq", there)
            self.assertEqual([name for name in os.listdir(libraries) if name.startswith(("libc.", "libstdc++"))], [])
            for line in there.splitlines():  # the rest is the C and C++ libraries
                if "=> /" in line and str(libraries) not in line:
                    self.assertRegex(line, r"lib(c|m|stdc\+\+|gcc_s|dl|rt|pthread|resolv|util)\.so")
            self.assertEqual(subprocess.run([program, "--help"], env={"LD_LIBRARY_PATH": str(libraries)}, capture_output=True,
                                            check=False).returncode, 0)

    def test_a_program_that_is_not_there_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.pack(folder, "sluice_sever")
            self.assertEqual((done.returncode, os.listdir(folder)), (1, []))
            self.assertIn("no program 'sluice_sever'", done.stderr)
        self.assertEqual(self.pack().returncode, 2)


if __name__ == "__main__":
    TWIN, BIN = sys.argv.pop(), pathlib.Path(sys.argv.pop())
    unittest.main()
