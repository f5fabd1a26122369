"""However the batch is spread over devices and workers, training is the same training (design: "Equivalence").

From one set of parameters, without shuffle, wd 0, total batch 128:
  one device; 3 devices with work load 3,1,2; dist_sync with 2 workers; 4 workers x 2 devices over 3 servers.
lenet_avg after 40 steps: equal to each other within 1e-5, to a float64 PyTorch reference within 1e-4.
lenet after 1 step: within 1e-5 of the reference. Two runs of one distributed job: bit-identical.

Usage: equivalence_test.py BIN_DIR DATA_DIR (needs python3-torch for the reference).
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import safetensors_file  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = DATA = None
LR, MOMENTUM = 0.05, 0.9

# name: (workers, servers, flags of each worker)
PLACEMENTS = {
    "one device": (0, 0, ["--kv-store=local", "--batch-size=128"]),
    "three devices, work load 3,1,2": (0, 0, ["--kv-store=device", "--batch-size=128", "--num-devices=3", "--work-load-list=3,1,2"]),
    "two workers": (2, 2, ["--kv-store=dist_sync", "--batch-size=64"]),
    "four workers of two devices, three servers": (4, 3, ["--kv-store=dist_device_sync", "--batch-size=32", "--num-devices=2"]),
}


def run(network, steps, placement, folder, name, load=None):
    workers, servers, flags = PLACEMENTS[placement]
    saved, report = folder / f"{name}.safetensors", folder / f"{name}.json"
    command = [str(BIN / "train_mnist"), f"--network={network}", f"--data-dir={DATA}", f"--num-steps={steps}",
               "--shuffle=false", "--wd=0", f"--lr={LR}", f"--mom={MOMENTUM}", "--seed=1",
               f"--save-params={saved}", f"--json={report}", *flags]
    if load is not None:
        command.append(f"--load-params={load}")
    if workers:
        command = [sys.executable, str(ROOT / "tools/launch.py"), "-n", str(workers), "-s", str(servers), *command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"{placement} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return saved, json.loads(report.read_text())


class Equivalence(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = pathlib.Path(cls.scratch.name)

    def start(self, network):
        return run(network, 0, "one device", self.folder, f"{network}-start")[0]

    def results(self, network, steps, start):
        return {placement: run(network, steps, placement, self.folder, f"{network}-{i}", start)
                for i, placement in enumerate(PLACEMENTS)}

    def reference(self, network, steps, start):
        import reference_lenet
        return reference_lenet.train(safetensors_file.load(start), DATA, steps, 128, LR, MOMENTUM, network == "lenet_avg")

    def test_lenet_avg_after_40_steps(self):
        start = self.start("lenet_avg")
        results = self.results("lenet_avg", 40, start)
        reference, losses = self.reference("lenet_avg", 40, start)
        arrays = {placement: safetensors_file.load(path) for placement, (path, _) in results.items()}
        one = arrays["one device"]
        for placement, array in arrays.items():
            between, name = safetensors_file.worst_difference(array, one)
            apart, far_name = safetensors_file.worst_difference(array, reference)
            print(f"lenet_avg, 40 steps, {placement}: {between:.1e} from one device ({name}), {apart:.1e} from float64 ({far_name})")
            self.assertLess(between, 1e-5)
            self.assertLess(apart, 1e-4)
        report = results["one device"][1]
        self.assertEqual(len(report["train_loss"]), 40)
        for ours, theirs in zip(report["train_loss"], losses):
            self.assertAlmostEqual(ours, theirs, delta=1e-3)

    def test_lenet_after_one_step(self):
        start = self.start("lenet")
        reference, _ = self.reference("lenet", 1, start)
        for placement, (path, _) in self.results("lenet", 1, start).items():
            apart, name = safetensors_file.worst_difference(safetensors_file.load(path), reference)
            print(f"lenet, 1 step, {placement}: {apart:.1e} from float64 ({name})")
            self.assertLess(apart, 1e-5)

    def test_the_same_distributed_job_twice_is_bit_identical(self):
        start = self.start("lenet")
        placement = "four workers of two devices, three servers"
        first, _ = run("lenet", 10, placement, self.folder, "first", start)
        second, _ = run("lenet", 10, placement, self.folder, "second", start)
        self.assertEqual(first.read_bytes(), second.read_bytes())


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    BIN, DATA = pathlib.Path(sys.argv[1]), sys.argv[2]
    unittest.main(argv=sys.argv[:1], verbosity=2)
