"""The flags of gradient compression, through whole jobs: fewer bytes, training that still learns, and what is refused.

Usage: compression_test.py BIN_DIR
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from cluster import Cluster, unwrapped  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = None
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# With an uneven last batch.
TRAIN = ["--network=mlp", "--kv-store=dist_sync", "--num-examples=3898", "--num-test-examples=1000", "--num-epochs=4", "--lr=0.1",
         "--mom=0.9", "--disp-batches=0"]
# Without momentum, which multiplies what residuals bring late: a large learning rate still converges.
LENET = ["--network=lenet", "--mom=0", "--num-epochs=8", "--seed=1"]


class Compression(unittest.TestCase):
    def run_job(self, *flags, verbose=0, workers=2):
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report.json"
            command = [sys.executable, str(ROOT / "tools/launch.py"), "-n", str(workers), "-s", "2", "--env", f"PS_VERBOSE={verbose}",
                       str(BIN / "train_mnist"), *TRAIN, *flags, f"--json={report}"]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stdout)
            return json.loads(report.read_text()), unwrapped(done.stdout)

    def bytes_pushed(self, *flags):
        """Returns the bytes of gradients that the last of six steps pushes; a Trainer's first pushes bring the weights to all workers."""
        _, said = self.run_job("--num-steps=6", *flags, verbose=2)
        pushes = re.findall(r"worker \d+ -> Push id \d+, \d+ parts?, round (\d+)(?:, \w+)?, ([\d.]+) (\w+)", said)
        of_round = {}
        for number, size, unit in pushes:
            of_round[int(number)] = of_round.get(int(number), 0) + float(size) * UNITS[unit]
        return of_round[max(of_round)]

    def test_pushes_take_the_bytes_that_they_should(self):
        plain = self.bytes_pushed()
        self.assertGreater(plain, 100_000)
        for kind, share in (("2bit", 1 / 16), ("1bit", 1 / 32), ("fp16", 1 / 2), ("bf16", 1 / 2)):
            with self.subTest(kind):
                self.assertAlmostEqual(self.bytes_pushed(f"--gc-type={kind}") / plain, share, delta=share * 0.05)
        self.assertAlmostEqual(self.bytes_pushed("--gc-type=topk", "--gc-ratio=0.05") / plain, 0.1, delta=0.005)

    def test_lenet_converges_by_what_residuals_bring_later(self):
        """Without compression it comes to 0.93. Where residuals are thrown away, topk comes to 0.64, and 2bit to 0.61 and 0.13."""
        plain, said = self.run_job(*LENET)
        self.assertNotIn("pushes as", said)
        self.assertGreater(plain["test_accuracy"], 0.85)
        for flags in (["--gc-type=fp16", "--gc-weights=fp16"], ["--gc-type=bf16", "--gc-weights=bf16"], ["--gc-type=topk", "--gc-ratio=0.02"],
                      ["--gc-type=1bit", "--gc-threshold=0"], ["--gc-type=2bit", "--gc-threshold=0.5"], ["--gc-type=2bit", "--gc-threshold=2"]):
            with self.subTest(flags):
                report, said = self.run_job(*LENET, *flags)
                self.assertIn(f"pushes as {flags[0].split('=')[1]}", said)
                self.assertNotEqual(report["train_loss"], plain["train_loss"])
                self.assertGreater(report["test_accuracy"], 0.82)

    def test_clipped_workers_update_by_sums_that_are_not_rounded(self):
        clip = ["--clip-global-norm=1", "--num-epochs=1"]
        plain, _ = self.run_job(*clip)
        rounded, _ = self.run_job(*clip, "--gc-weights=fp16")
        self.assertEqual(plain["train_loss"], rounded["train_loss"])

    def test_flags_that_do_not_fit_are_refused(self):
        for flags, words in ((["--gc-type=3bit"], ["--gc-type is '3bit'", "2bit"]), (["--gc-weights=2bit"], ["--gc-weights is '2bit'"]),
                             (["--gc-type=2bit", "--gc-threshold=0"], ["--gc-threshold is 0", "above 0"]),
                             (["--gc-threshold=1e39"], ["--gc-threshold is 1e+39", "float32"]), (["--gc-threshold=nan"], ["--gc-threshold got 'nan'"]),
                             (["--gc-ratio=0"], ["--gc-ratio is 0"]), (["--gc-ratio=1.5"], ["--gc-ratio is 1.5"]),
                             (["--gc-type=2bit", "--kv-store=local"], ["--gc-type is 2bit", "--kv-store local"]),
                             (["--gc-weights=fp16", "--kv-store=device"], ["--gc-weights is fp16", "--kv-store device"])):
            with self.subTest(flags):
                done = subprocess.run([BIN / "train_mnist", "--kv-store=local", *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      text=True, timeout=60)
                self.assertEqual(done.returncode, 2, done.stdout)
                for word in words:
                    self.assertIn(word, unwrapped(done.stdout))

    def test_workers_that_were_told_otherwise_are_refused(self):
        with Cluster(BIN, 2, 1) as cluster:
            cluster.start_scheduler()
            cluster.start_server(0)
            workers = [cluster.start_worker(rank, [BIN / "train_mnist", *TRAIN, f"--gc-type={kind}"]) for rank, kind in enumerate(("2bit", "1bit"))]
            self.assertNotEqual(workers[1].wait(60), 0)
            self.assertIn("worker 1 has --gc-type: 1bit, worker 0 --gc-type: 2bit", unwrapped(workers[1].output()))


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
