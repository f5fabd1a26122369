"""Children that a worker forks while its store works: they read arrays at rest, are refused the rest, and harm nobody."""
import importlib.util
import unittest

import fork_job
import sluice

LIMIT = 240  # seconds
FORKS = 250  # each of two workers makes so many over each of two transports


class Forks(unittest.TestCase):
    def test_a_thousand_under_load(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport):
                ends = sluice.run(fork_job.forks, (FORKS,), workers=2, servers=1, env={"SLUICE_TRANSPORT": transport}, timeout=LIMIT)
                for zeros, ones, others, first, last, pushed in ends:
                    self.assertEqual((zeros + ones, others), (FORKS, []))
                    self.assertEqual(ones, FORKS // 3)
                    self.assertEqual((first, last), (-pushed, -pushed))
                    self.assertGreater(pushed, 0)

    def test_a_child_ends_by_a_signal(self):
        self.assertEqual(sluice.run(fork_job.terminated, workers=2, timeout=LIMIT), [-15, -15])

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_the_workers_of_a_data_loader(self):
        for method in ("fork", "spawn"):
            with self.subTest(method):
                # each batch of 8 rows of ones is summed over two workers, 8 batches, 3 times
                self.assertEqual(sluice.run(fork_job.loaded, (method,), workers=2, timeout=LIMIT), [3 * 8 * 16.0] * 2)
