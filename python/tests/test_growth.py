"""Ten thousand steps take no more memory than some."""
import importlib.util
import unittest

import growth_job
import sluice

LIMIT = 240  # seconds
WARM, STEPS = 2000, 10_000
MOST = 6 << 20  # bytes; the allocators of two libraries grow once or twice by some MiB, whatever the steps do


class Growth(unittest.TestCase):
    def check(self, fn, *args, workers=1):
        for grown in sluice.run(fn, (*args, WARM, STEPS), workers=workers, servers=1, timeout=LIMIT):
            self.assertLess(grown, MOST)

    def test_of_arrays_and_rows(self):
        self.check(growth_job.arrays, workers=2)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_of_a_module_whose_gradients_are_averaged(self):
        self.check(growth_job.module, "worker")

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_of_a_module_that_servers_update(self):
        self.check(growth_job.module, "server")
