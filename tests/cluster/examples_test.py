"""The examples train, and refuse what they cannot do.

Usage: examples_test.py BIN_DIR
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from bad_input_test import idx  # noqa: E402
from cluster import unwrapped  # noqa: E402

BIN = None
LINEAR_MODEL = 0.7  # what the synthetic digits leave to a model without hidden layers: docs/data.md


def run(program, *flags):
    return subprocess.run([str(BIN / program), *map(str, flags)], capture_output=True, text=True, timeout=300)


def write_bars(folder, count):
    """Fashion-MNIST's four files with pictures that anybody can tell apart: class c is a bright bar in rows 2c..2c+3."""
    for split, first in (("train", 0), ("t10k", count)):
        labels = bytes((first + i) % 10 for i in range(count))
        images = b"".join(bytes(255 if 2 * c <= row < 2 * c + 4 else i % 64 for row in range(28) for _ in range(28)) for i, c in enumerate(labels))
        (folder / f"{split}-images-idx3-ubyte").write_bytes(idx(8, (count, 28, 28), images))
        (folder / f"{split}-labels-idx1-ubyte").write_bytes(idx(8, (count,), labels))


class Examples(unittest.TestCase):
    def numbers(self, done, name):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return [float(value) for value in re.findall(rf"{name} (\S+)", done.stdout)]

    def assert_refused(self, done, *words):
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, unwrapped(done.stderr))

    def test_multi_device_learns(self):
        done = run("multi_device", "--num-epochs=2")
        losses, accuracies = self.numbers(done, "loss"), self.numbers(done, "test accuracy")
        self.assertEqual(len(losses), 2)
        self.assertLess(losses[1], losses[0])
        self.assertGreater(accuracies[-1], LINEAR_MODEL + 0.15)

    def test_train_mnist_learns_with_every_optimizer_and_its_defaults(self):
        # What is left to guessing: 0.1. lamb's steps are 0.001 of the weights: slow, but sure.
        for optimizer, chosen, least in (("sgd", "learning rate 0.05, momentum 0.9", 0.7), ("nag", "learning rate 0.05, momentum 0.9", 0.7),
                                         ("adam", "learning rate 0.001", 0.7), ("adamw", "learning rate 0.001", 0.7),
                                         ("adagrad", "learning rate 0.01", 0.7), ("rmsprop", "learning rate 0.001, momentum 0.9", 0.7),
                                         ("lamb", "learning rate 0.001", 0.4), ("signum", "learning rate 0.001, momentum 0.9", 0.7)):
            with self.subTest(optimizer=optimizer):
                done = run("train_mnist", f"--optimizer={optimizer}", "--num-epochs=2", "--num-examples=10000")
                self.assertGreater(self.numbers(done, "final test accuracy")[0], least)
                self.assertIn(f"\n{optimizer}, {chosen}\n", done.stdout)
        for network, least in (("linear", 0.4), ("mlp", 0.5)):
            done = run("train_mnist", "--optimizer=ftrl", f"--network={network}", "--num-epochs=2", "--num-examples=10000")
            self.assertGreater(self.numbers(done, "final test accuracy")[0], least)
            self.assertEqual(done.stderr, "")

    def test_train_text_learns_or_warns_with_every_optimizer_and_its_defaults(self):
        for optimizer in ("adam", "adamw", "adagrad", "rmsprop", "lamb", "signum"):
            with self.subTest(optimizer=optimizer):
                done = run("train_text", f"--optimizer={optimizer}")
                self.assertGreater(self.numbers(done, "final test accuracy")[0], 0.9)  # a guess: 0.25
                self.assertRegex(done.stdout, r"epoch 1 loss .* \d+ texts/s")
        for optimizer in ("sgd", "nag"):
            done = run("train_text", f"--optimizer={optimizer}", "--num-epochs=1", "--num-examples=100")
            self.assertIn("adam learns", unwrapped(done.stderr))

    def test_a_loss_that_is_no_number_has_no_sign(self):
        done = run("embedding_table", "--lr=1e30", "--rows=100", "--columns=4", "--ids=20", "--num-steps=8")
        self.assertIn("loss nan", done.stdout)
        self.assertNotIn("-nan", done.stdout)

    def test_embedding_table_learns(self):
        done = run("embedding_table", "--rows=100000", "--columns=8", "--ids=2000", "--num-steps=10")
        losses = self.numbers(done, "loss")
        self.assertEqual(len(losses), 10)
        self.assertLess(losses[-1], losses[0] / 2)
        self.assert_refused(run("embedding_table", "--ids=0"), "--ids is 0", "above 0")

    def test_from_scratch_learns_on_each_number_of_devices(self):
        done = run("from_scratch", "--num-devices=1,2", "--num-epochs=7", "--num-examples=6000", "--batch-size=64", "--lr=0.1")
        accuracies = self.numbers(done, "test accuracy")
        self.assertEqual(len(accuracies), 14)
        for accuracy in (accuracies[6], accuracies[13]):
            self.assertGreater(accuracy, LINEAR_MODEL + 0.1)

    # Few steps: later a ReLU at its kink makes more of a rounding than float32 explains.
    def test_from_scratch_does_the_same_on_any_number_of_devices(self):
        for batch in (256, 7):
            with self.subTest(batch=batch):
                losses = self.numbers(run("from_scratch", "--num-devices=1,2,3,5", "--num-epochs=3", f"--num-examples={batch}",
                                          f"--batch-size={batch}"), "loss")
                self.assertEqual(len(losses), 12)
                self.assertGreater(losses[0] - losses[2], 1e-3)  # the weights moved
                for epoch in range(3):
                    for loss in losses[epoch::3]:
                        self.assertAlmostEqual(loss, losses[epoch], delta=5e-6)

    def test_from_scratch_reads_fashion_mnists_files(self):
        with tempfile.TemporaryDirectory() as folder:
            write_bars(pathlib.Path(folder), 200)
            done = run("from_scratch", f"--data-dir={folder}", "--num-devices=2", "--num-epochs=10", "--batch-size=20")
            self.assertEqual(self.numbers(done, "test accuracy")[-1], 1.0, done.stdout)
            self.assertEqual(run("from_scratch", f"--data-dir={folder}/none").returncode, 1)

    def test_bad_flags(self):
        for program, flag, words in (
            ("multi_device", "--num-epochs=0", ["--num-epochs is 0", "at least 1"]),
            ("multi_device", "--num-examples=250", ["--num-examples is 250", "multiple of 100"]),
            ("multi_device", "--num-examples=0", ["--num-examples is 0"]),
            ("multi_device", "--epochs=1", ["--epochs"]),
            ("multi_device", "extra", ["stray", "extra"]),
            ("from_scratch", "--num-devices=1,x", ["--num-devices is '1,x'"]),
            ("from_scratch", "--num-devices=0", ["--num-devices is '0'"]),
            ("from_scratch", "--num-devices=", ["--num-devices is ''"]),
            ("from_scratch", "--num-epochs=0", ["--num-epochs is 0"]),
            ("from_scratch", "--batch-size=1", ["--batch-size is 1", "2 devices"]),
            ("from_scratch", "--lr=0", ["--lr is 0"]),
            ("from_scratch", "--lr=nan", ["--lr", "nan"]),
            ("from_scratch", "--num-examples=0", ["0"]),
            ("train_mnist", "--optimizer=accumulate", ["accumulate", "rmsprop"]),
        ):
            with self.subTest(program=program, flag=flag):
                self.assert_refused(run(program, flag), *words)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
