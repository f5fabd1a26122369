"""The main job learns: LeNet by 1 scheduler, 2 servers and 2 workers, on synthetic digits and, where it lies, on MNIST; in
bfloat16 as in float32.

Usage: accuracy_test.py BIN_DIR (where no MNIST lies, see cluster.py, what needs it is skipped)

SLUICE_TEN_EPOCHS=1 adds what takes a quarter of an hour: 0.990 on MNIST within ten epochs, in float32 and bfloat16, on
one device, two devices and two workers.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from cluster import mnist_folder  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = MNIST = None

# Flags of one epoch of MNIST, and what it must reach; 0.9826, 0.9830, and 0.976 to 0.980 were measured.
AFTER_ONE_EPOCH = {
    "dist_sync": ([], 0.975),
    "dist_device_sync": (["--num-devices=2"], 0.975),
    "dist_async": ([], 0.965),
}
# The batch is 64 on each device.
PLACES = {
    "1 device": ("local", []),
    "2 devices": ("device", ["--num-devices=2", "--batch-size=128"]),
    "2 workers": ("dist_sync", []),
}


def train(store, *flags, timeout=400):
    launch = [sys.executable, str(ROOT / "tools/launch.py"), "-n", "2", "-s", "2", "--launcher", "local"] if store.startswith("dist") else []
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        done = subprocess.run([*launch, str(BIN / "train_mnist"), "--network=lenet", f"--kv-store={store}", f"--json={report}", *flags],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout)
        if done.returncode != 0:
            raise AssertionError(f"{store} ended with {done.returncode}:\n{done.stdout[-4000:]}")
        return json.loads(report.read_text()), done.stdout


class Accuracy(unittest.TestCase):
    def expect(self, report, output, store, epochs, least):
        self.assertEqual((report["kv_store"], report["num_workers"], report["num_servers"]), (store, 2, 2))
        self.assertEqual(report["epochs"], epochs)
        self.assertEqual(len(report["train_loss"]), epochs)
        print(f"{store}: {report['test_accuracy']:.4f} after {epochs} epochs, {least} is expected")
        self.assertGreaterEqual(report["test_accuracy"], least, output[-4000:])
        self.assertIn(f"final test accuracy {report['test_accuracy']:.4f}", output)

    def test_synthetic_digits(self):
        self.expect(*train("dist_sync", "--num-epochs=5"), "dist_sync", 5, 0.97)

    # A short run, of the same global batch everywhere, so that nothing but the type and the order of sums differs.
    # Measured: MNIST 0.949 to 0.951, digits
    # 0.955 to 0.966.
    def test_bfloat16_learns_what_float32_learns(self):
        flags = ["--num-examples=4000", "--num-test-examples=1500", "--num-epochs=3", "--disp-batches=0", "--batch-size=64"]
        flags += [] if MNIST is None else [f"--data-dir={MNIST}"]
        least = 0.9
        float32 = train("local", *flags)[0]["test_accuracy"]
        print(f"float32, 1 device: {float32:.4f} on {MNIST or 'synthetic digits'}", flush=True)
        self.assertGreater(float32, least)
        for place, (store, placing) in {"1 device": ("local", []), "2 devices": ("device", ["--num-devices=2"]),
                                        "2 workers": ("dist_sync", ["--batch-size=32"])}.items():
            report, output = train(store, *flags, "--dtype=bfloat16", *placing)
            print(f"bfloat16, {place}: {report['test_accuracy']:.4f}", flush=True)
            with self.subTest(place=place):
                self.assertIn("lenet in bfloat16 on", output)
                self.assertGreater(report["test_accuracy"], least)
                self.assertLess(abs(report["test_accuracy"] - float32), 0.02)

    def require_mnist(self):
        if MNIST is None:
            self.skipTest("no MNIST: SLUICE_MNIST names its folder (tools/get_mnist.py fetches it)")

    # Fails when the last epoch lies below, too: 0.990 is reached and kept.
    def test_mnist_in_ten_epochs(self):
        self.require_mnist()
        if os.environ.get("SLUICE_TEN_EPOCHS") != "1":
            self.skipTest("takes a quarter of an hour: SLUICE_TEN_EPOCHS=1 runs it")
        for dtype in ("float32", "bfloat16"):
            for place, (store, flags) in PLACES.items():
                with self.subTest(dtype=dtype, place=place):
                    report, output = train(store, f"--data-dir={MNIST}", f"--dtype={dtype}", "--num-epochs=10", "--disp-batches=0", *flags,
                                           timeout=1200)
                    by_epoch = [float(text) for text in re.findall(r"epoch \d+ test accuracy (\S+)", output)]
                    reached = next((i for i, accuracy in enumerate(by_epoch, 1) if accuracy >= 0.990), None)
                    print(f"{dtype}, {place}: 0.990 after {reached} epochs, {report['test_accuracy']:.4f} after {len(by_epoch)}", flush=True)
                    self.assertEqual(len(by_epoch), 10, output[-4000:])
                    self.assertGreaterEqual(report["test_accuracy"], 0.990, output[-4000:])

    def test_mnist(self):
        self.require_mnist()
        for store, (flags, least) in AFTER_ONE_EPOCH.items():
            with self.subTest(store=store):
                self.expect(*train(store, f"--data-dir={MNIST}", "--num-epochs=1", *flags), store, 1, least)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    MNIST = mnist_folder()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
