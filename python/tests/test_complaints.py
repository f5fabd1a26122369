"""What users of Horovod, DDP, BytePS and TorchRec complain of (docs/design/python.md), each answered by a test that a naive way fails.

1, 2, 5, 6, 8, 10 are here. 3 (uneven data), 4 (unused parameters), 7 (exact sums in async stores) and 9 (clipping, scaling,
accumulation without rituals) are test_torch.py's test_data_that_ends_at_different_steps, test_two_workers and test_one_worker,
and test_forks.py's ledger of pushes.
"""
import os
import subprocess
import sys
import unittest

import sluice

try:
    import torch  # noqa: F401
    import complaint_job as job
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

LIMIT = 120  # seconds


class Complaints(unittest.TestCase):
    def test_1_no_library_of_pytorch_is_linked(self):
        listed = subprocess.run(["ldd", sluice._core.__file__], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("torch", listed)
        self.assertNotIn("libc10", listed)

    def test_2_a_wait_names_worker_key_and_round(self):
        with self.assertRaises(TimeoutError) as raised:
            sluice.run(job.silent, timeout=LIMIT, env={"SLUICE_OPERATION_TIMEOUT": "2"})
        said = str(raised.exception)
        for what in ("push_pull of key layer7.weight, round 1", "waiting for worker 1", "the limit is 2 s"):
            self.assertIn(what, said)

    def test_5_rows_of_nobody_close_a_round(self):
        self.assertEqual(sluice.run(job.empty, timeout=LIMIT), [[[-1, -1], [0, 0]]] * 2)

    def test_6_a_table_of_a_hundred_million_rows(self):
        for grown in sluice.run(job.large, servers=2, timeout=LIMIT):
            self.assertLess(grown, 50 << 20)

    def test_8_a_death_ends_the_job_and_is_named(self):
        code = "import complaint_job; complaint_job.killed()"
        done = subprocess.run([sys.executable, "-m", "sluice", "launch", "-n", "2", "-s", "1", sys.executable, "-c", code],
                              capture_output=True, text=True, timeout=LIMIT, cwd=os.path.dirname(__file__), check=False)
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertRegex(done.stderr, r"worker 1 .*SIGKILL")

    def test_10_models_that_differ_name_both(self):
        for kind, words in (("worker", ("worker 0 has 2 parameters, among them 0.bias [2] float32", "worker 1 has 2 parameters, among them 1.bias [2] float32")),
                            ("server", ("among them 0.bias", "among them 1.bias")), ("shape", ("bias [2] float32", "bias [3] float32"))):
            with self.subTest(kind):
                with self.assertRaises(ValueError) as raised:
                    sluice.run(job.named, (kind,), timeout=LIMIT)
                for word in words:
                    self.assertIn(word, str(raised.exception))
