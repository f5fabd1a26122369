"""However the batch is spread over devices and workers, training is the same training (design: "Equivalence").

From one set of parameters, total batch 128, with SGD and momentum, in all PLACEMENTS:
  lenet, one step: gradients within 1e-5 of PyTorch's in float64.
  lenet_avg, 40 steps: parameters within 1e-5 of one device's and of PyTorch's. The last batch of an epoch is smaller than
    the workers are many: shares are empty.
  lenet_avg, shuffled, with weight decay, 40 steps: within 1e-5 of one device's. The last batch's shares are uneven.
  The same job twice: the same bits.
Max-pooling's near-ties amplify rounding, so lenet is compared after one step alone.

Usage: equivalence_test.py BIN_DIR (on MNIST where it lies, see cluster.py, else on synthetic digits; needs python3-torch)
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import reference_models  # noqa: E402
import safetensors_file  # noqa: E402
from cluster import mnist_folder  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = MNIST = None
BATCH, MOMENTUM = 128, 0.9
SAMPLES = 30 * BATCH + 3  # step 31 has 3 samples

MAP = "conv1=cpu(0),conv2=cpu(1),fc1=cpu(1),fc2=cpu(0)"  # for both networks

# name: (workers, servers, flags of each worker)
PLACEMENTS = {
    "one device": (0, 0, ["--kv-store=local", "--batch-size=128"]),
    "two devices, summed in host memory": (0, 0, ["--kv-store=local", "--batch-size=128", "--num-devices=2"]),
    "three devices, work load 3,1,2": (0, 0, ["--kv-store=device", "--batch-size=128", "--num-devices=3", "--work-load-list=3,1,2"]),
    "two workers": (2, 2, ["--kv-store=dist_sync", "--batch-size=64"]),
    "two workers of two devices, summed in host memory": (2, 1, ["--kv-store=dist_sync", "--batch-size=64", "--num-devices=2"]),
    "layers over two devices": (0, 0, ["--kv-store=local", "--batch-size=128", "--group2ctx=auto", "--num-devices=2"]),
    "layers over four devices, one after the other": (
        0, 0, ["--kv-store=device", "--batch-size=128", "--group2ctx=auto", "--num-devices=4", "--micro-batches=0"]),
    "two workers, layers over two devices": (2, 1, ["--kv-store=dist_sync", "--batch-size=64", f"--group2ctx={MAP}", "--micro-batches=8"]),
    "four workers of two devices, three servers": (4, 3, ["--kv-store=dist_device_sync", "--batch-size=32", "--num-devices=2"]),
}
ONE_DEVICE = "one device"


def run(network, steps, placement, folder, name, *flags, load=None):
    workers, servers, placing = PLACEMENTS[placement]
    saved, report = folder / f"{name}.safetensors", folder / f"{name}.json"
    command = [str(BIN / "train_mnist"), f"--network={network}", f"--num-steps={steps}", f"--mom={MOMENTUM}", "--seed=1",
               f"--num-examples={SAMPLES}", "--num-test-examples=128", "--disp-batches=0",
               f"--save-params={saved}", f"--json={report}", *placing, *flags]
    if MNIST is not None:
        command.append(f"--data-dir={MNIST}")
    if load is not None:
        command.append(f"--load-params={load}")
    if workers:
        command = [sys.executable, str(ROOT / "tools/launch.py"), "-n", str(workers), "-s", str(servers), *command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"{placement} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return saved, json.loads(report.read_text())


def training_set(folder):
    """The first SAMPLES images, as the programs see them, and labels."""
    if MNIST is not None:
        images, labels = reference_models.mnist(MNIST, SAMPLES)
    else:
        path = folder / "digits.safetensors"
        subprocess.run([str(BIN.parent / "tests" / "reference_probe"), "digits", str(SAMPLES), str(path)], check=True, timeout=60)
        arrays = safetensors_file.load(path)
        images, labels = arrays["images"], arrays["labels"]
    return torch.from_numpy(images / 255.0), torch.from_numpy(labels.astype(np.int64))


class Equivalence(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.images, cls.labels = training_set(cls.folder)
        cls.starts = {network: run(network, 0, ONE_DEVICE, cls.folder, f"{network}-start")[0] for network in ("lenet", "lenet_avg")}
        print(f"on {MNIST or 'synthetic digits'}", flush=True)

    def results(self, network, steps, *flags, placements=PLACEMENTS):
        """{placement: (arrays, report)}"""
        results = {}
        for i, placement in enumerate(placements):
            path, report = run(network, steps, placement, self.folder, f"{network}-{i}", *flags, load=self.starts[network])
            results[placement] = safetensors_file.load(path), report
        return results

    def expect(self, placement, actual, expected, of):
        apart, name = safetensors_file.worst_difference(actual, expected)
        print(f"{self.id().rsplit('.', 1)[1]}, {placement}: {apart:.1e} from {of} ({name})", flush=True)
        with self.subTest(placement=placement, of=of):
            self.assertLess(apart, 1e-5, name)

    # The only step of a learning rate of 64 is 64 gradients: as exact as float32 holds them, whatever the weights are.
    def test_gradients_of_lenet(self):
        rate = 64
        before = safetensors_file.load(self.starts["lenet"])
        training = reference_models.Training("lenet", before, rate, MOMENTUM)
        training.step(self.images[:BATCH], self.labels[:BATCH])
        flags = ["--shuffle=false", "--wd=0", f"--lr={rate}"]
        for placement, (arrays, _) in self.results("lenet", 1, *flags).items():
            gradients = {name: (before[name].astype(np.float64) - array) / rate for name, array in arrays.items()}
            self.expect(placement, gradients, training.gradients(), "float64")

    def test_40_steps_of_lenet_avg(self):
        steps, rate = 40, 0.05
        training = reference_models.Training("lenet_avg", safetensors_file.load(self.starts["lenet_avg"]), rate, MOMENTUM)
        first, losses = 0, []
        for _ in range(steps):
            cut = slice(first, min(first + BATCH, SAMPLES))
            losses.append(training.step(self.images[cut], self.labels[cut]))
            first = 0 if cut.stop == SAMPLES else cut.stop
        self.assertEqual(len(losses[30]), SAMPLES % BATCH)
        results = self.results("lenet_avg", steps, "--shuffle=false", "--wd=0", f"--lr={rate}")
        for placement, (arrays, report) in results.items():
            self.expect(placement, arrays, results[ONE_DEVICE][0], ONE_DEVICE)
            self.expect(placement, arrays, training.parameters(), "float64")
            if PLACEMENTS[placement][0] > 0:
                continue  # a worker reports the loss of its own share
            self.assertEqual(len(report["train_loss"]), steps)
            for ours, theirs in zip(report["train_loss"], losses):
                self.assertAlmostEqual(ours, theirs.mean(), delta=1e-5)

    def test_shuffled_with_weight_decay(self):
        samples = 12 * BATCH + 70  # not a multiple of 4, and no share of it is empty
        results = self.results("lenet_avg", 40, "--wd=0.01", "--lr=0.05", f"--num-examples={samples}", placements=(
            ONE_DEVICE, "three devices, work load 3,1,2", "four workers of two devices, three servers"))
        for placement, (arrays, _) in results.items():
            self.expect(placement, arrays, results[ONE_DEVICE][0], ONE_DEVICE)

    def test_the_same_bits_twice(self):
        for placement in ("three devices, work load 3,1,2", "four workers of two devices, three servers"):
            with self.subTest(placement=placement):
                first, _ = run("lenet", 10, placement, self.folder, "first", load=self.starts["lenet"])
                second, _ = run("lenet", 10, placement, self.folder, "second", load=self.starts["lenet"])
                self.assertEqual(first.read_bytes(), second.read_bytes())


if __name__ == "__main__":
    BIN, MNIST = pathlib.Path(sys.argv[1]).resolve(), mnist_folder()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
