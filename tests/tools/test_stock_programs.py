"""Scheduler and server are small: they carry no library that only computing needs.

Usage: test_stock_programs.py BIN cuda|no_cuda   (the twin that this build has)
"""
import pathlib
import subprocess
import sys
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


if __name__ == "__main__":
    TWIN, BIN = sys.argv.pop(), pathlib.Path(sys.argv.pop())
    unittest.main()
