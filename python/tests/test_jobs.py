"""Jobs of several processes on this machine, by sluice.run: sums, training, errors and ends."""
import os
import subprocess
import sys
import tempfile
import unittest

import job
import numpy
import sluice

LIMIT = 120  # seconds


def run(fn, *args, **options):
    return sluice.run(fn, args, timeout=LIMIT, **options)


class Jobs(unittest.TestCase):
    def test_results_come_by_rank(self):
        self.assertEqual(run(job.ranks, workers=3, servers=2, env={"COLOUR": "blue"}), [(i, 3, "blue") for i in range(3)])

    def test_sums_on_both_transports(self):
        for transport in ("tcp", "shm"):
            for shape in ((), (7,), (300, 1000)):
                with self.subTest(transport=transport, shape=shape):
                    expected = [[(3 * (step + 1) + 2 * i,) * 2 for i in range(5)] for step in range(4)]
                    for seen in run(job.sums, 5, 4, shape, env={"SLUICE_TRANSPORT": transport}):
                        self.assertEqual(seen, expected)

    def test_training_equals_one_process_in_float64(self):
        x = numpy.random.default_rng(4).standard_normal((64, 3)).astype(numpy.float32).astype(numpy.float64)
        y = x @ numpy.float64([1, -2, 3])
        weight, velocity = numpy.zeros(3), numpy.zeros(3)
        for _ in range(40):
            velocity = 0.9 * velocity - 0.01 * 2 * x.T @ (x @ weight - y) / 64
            weight = weight + velocity
        for workers in (1, 2, 4):
            with self.subTest(workers=workers):
                for _, found in run(job.linear, "dist_sync", sluice.SGD(0.01, momentum=0.9), 40, 4, workers=workers):
                    numpy.testing.assert_allclose(found, weight, atol=1e-5)

    def test_async_training_arrives(self):
        for _, weight in run(job.linear, "dist_async", sluice.SGD(0.05), 300, 4):
            numpy.testing.assert_allclose(weight, [1, -2, 3], atol=0.05)

    def test_agreement_and_compression(self):
        self.assertEqual(run(job.agrees), ["word of 0"] * 2)
        for value in run(job.compressed):
            numpy.testing.assert_array_equal(value, [2, 0, -2, 0, 2, -2, 0, 2])


class Ends(unittest.TestCase):
    def test_an_exception_of_a_worker(self):
        with self.assertRaisesRegex(ValueError, "worker 1 has no data") as raised:
            run(job.fails, 1)
        self.assertIn("in fails", str(raised.exception.__cause__))

    def test_a_program_without_a_main_guard(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as program:
            program.write("import sluice\ndef work(): return 1\nprint(sluice.run(work, workers=1))\n")
            program.flush()
            done = subprocess.run([sys.executable, program.name], capture_output=True, text=True, timeout=LIMIT)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('put the call under `if __name__ == "__main__":`', done.stdout + done.stderr)

    def test_sys_exit(self):
        with self.assertRaisesRegex(sluice.Error, "exit code 3"):
            run(job.leaves, 3, workers=1)

    def test_a_timeout(self):
        with self.assertRaises(TimeoutError):
            sluice.run(job.hangs, timeout=5)

    def test_an_uncaught_exception_of_a_script(self):
        code = "import sluice\nkv = sluice.create('dist_sync')\nif kv.rank == 1: raise KeyError('no such sample')\nkv.barrier()\n"
        done = subprocess.run([sys.executable, "-m", "sluice", "launch", "-n", "2", "-s", "1", sys.executable, "-c", code],
                              capture_output=True, text=True, timeout=LIMIT, check=False, env=os.environ)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("KeyError: 'no such sample'", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
