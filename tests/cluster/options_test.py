"""Flags of the training programs that change what a run computes, by what the run then does: --dtype bfloat16,
--label-smoothing, --eval-steps; on one device, on two and in a job.

Usage: options_test.py BIN_DIR
"""
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import safetensors_file  # noqa: E402
from cluster import unwrapped  # noqa: E402
from examples_test import write_bars  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = None


class Options(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def run_program(self, program, *flags, workers=0):
        command = [str(BIN / program), "--disp-batches=0", *map(str, flags)]
        if workers:
            command = [sys.executable, str(ROOT / "tools/launch.py"), "-n", str(workers), "-s", "2", *command]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)

    def train(self, *arguments, **options):
        done = self.run_program(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def report(self, *arguments, **options):
        path = self.folder / "report.json"
        output = self.train(*arguments, f"--json={path}", **options)
        return json.loads(path.read_text()), output

    def assert_refused(self, done, *words):
        self.assertEqual(done.returncode, 2, done.stdout)
        for word in words:
            self.assertIn(word, unwrapped(done.stdout))


def nearest_bfloat16(array):
    """As float32: of the two bfloat16 around each number the nearer one, of two as near the one with an even last bit."""
    below = (array.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)  # towards zero
    above = (below.view(np.uint32) + np.uint32(0x10000)).view(np.float32)
    exact, to_below, to_above = array.astype(np.float64), np.abs(array.astype(np.float64) - below), np.abs(above.astype(np.float64) - array)
    is_even = (below.view(np.uint32) >> 16) % 2 == 0
    return np.where((exact == below) | (to_below < to_above) | ((to_below == to_above) & is_even), below, above)


class BFloat16(Options):
    # Chance is 0.1. Measured: 0.41 and 0.43. MNIST's networks: accuracy_test.py.
    def test_pictures_are_learnt_as_in_float32(self):
        flags = ["--network=gluon_lenet", "--optimizer=adam", "--lr=0.001", "--augment=false", "--num-examples=2000",
                 "--num-test-examples=500", "--num-epochs=5"]
        learnt = {}
        for name, workers, place in (
            ("float32, 1 device", 0, ["--batch-size=32"]),
            ("bfloat16, 2 devices", 0, ["--batch-size=32", "--dtype=bfloat16", "--num-devices=2", "--kv-store=device"]),
            ("bfloat16, 2 workers", 2, ["--batch-size=16", "--dtype=bfloat16", "--kv-store=dist_sync"]),
        ):
            report, output = self.report("train_cifar10", *flags, *place, workers=workers)
            self.assertEqual("in bfloat16 on synthetic" in output, "bfloat16" in name, output)
            learnt[name] = report["test_accuracy"]
        print(learnt)
        for name, accuracy in learnt.items():
            with self.subTest(name=name):
                self.assertGreater(accuracy, 0.3)
                self.assertLess(abs(accuracy - learnt["float32, 1 device"]), 0.08)

    # Batch normalisation's statistics and the masters of the store go on, too.
    def test_a_checkpoint_goes_on_to_the_last_bit(self):
        for program, network, workers, place in (
            ("train_mnist", "lenet", 0, ["--num-devices=2", "--kv-store=device"]),
            ("train_mnist", "lenet", 2, ["--kv-store=dist_sync"]),
            ("train_cifar10", "resnet20", 0, ["--num-devices=2", "--kv-store=device"]),
            ("train_cifar10", "lenet", 2, ["--kv-store=dist_sync"]),
        ):
            with self.subTest(program=program, place=place):
                flags = ["--dtype=bfloat16", f"--network={network}", "--num-examples=96", "--num-test-examples=16", "--batch-size=16", *place]
                ends = [self.folder / name for name in ("whole.safetensors", "resumed.safetensors")]
                prefix = f"--model-prefix={self.folder}/{program}-{workers}"
                self.train(program, *flags, "--num-steps=9", f"--save-params={ends[0]}", workers=workers)
                self.train(program, *flags, prefix, "--num-steps=5", "--save-steps=5", workers=workers)
                output = self.train(program, *flags, prefix, "--resume", "--num-steps=9", f"--save-params={ends[1]}", workers=workers)
                self.assertRegex(output, "goes on after epoch [01]")
                self.assertEqual(ends[0].read_bytes(), ends[1].read_bytes())

    # bfloat16 has 8 bits of significand: 2^-9 of a weight at most is what rounding takes.
    def test_what_is_saved_is_float32_rounded(self):
        saved = {}
        for dtype in ("float32", "bfloat16"):
            path = self.folder / f"{dtype}.safetensors"
            self.train("train_mnist", "--network=lenet_avg", f"--dtype={dtype}", "--num-examples=640", "--num-test-examples=16",
                       "--num-steps=10", f"--save-params={path}")
            saved[dtype] = path
        arrays = {dtype: {name: array for name, array in safetensors_file.load(path).items() if name.endswith("weight")}
                  for dtype, path in saved.items()}
        apart, name = safetensors_file.worst_difference(arrays["bfloat16"], arrays["float32"])
        print(f"lenet_avg after 10 steps in bfloat16: {apart:.1e} from float32 ({name})")
        self.assertLess(apart, 1e-2)
        self.assertGreater(apart, 1e-4)
        self.assertLess(saved["bfloat16"].stat().st_size, 0.55 * saved["float32"].stat().st_size)

    def test_parameters_of_the_other_type_are_converted(self):
        paths = {name: self.folder / f"{name}.safetensors" for name in ("float32", "bfloat16", "job", "back")}
        few = ["--network=lenet_avg", "--num-examples=640", "--num-test-examples=16"]
        self.train("train_mnist", *few, "--num-steps=10", f"--save-params={paths['float32']}")
        for name, source, workers, flags in (("bfloat16", "float32", 0, ["--dtype=bfloat16", "--num-devices=2", "--kv-store=device"]),
                                             ("job", "float32", 2, ["--dtype=bfloat16", "--kv-store=dist_sync"]),
                                             ("back", "bfloat16", 0, [])):
            self.train("train_mnist", *few, *flags, "--num-epochs=0", f"--load-params={paths[source]}", f"--save-params={paths[name]}",
                       workers=workers)
        arrays = {name: safetensors_file.load(path) for name, path in paths.items()}
        changed = 0
        for name, trained in arrays["float32"].items():
            expected = nearest_bfloat16(trained) if name.endswith(("weight", "bias")) else trained
            changed += np.count_nonzero(expected != trained)
            for loaded in ("bfloat16", "job", "back"):
                self.assertEqual(arrays[loaded][name].tobytes(), expected.tobytes(), (loaded, name))
        self.assertGreater(changed, 1000)

    def test_training_begins_with_parameters_of_the_other_type(self):
        path, few = self.folder / "learnt.safetensors", ["--network=mlp", "--num-examples=3000", "--num-test-examples=500"]
        for saved, loaded in (("float32", "bfloat16"), ("bfloat16", "float32")):
            with self.subTest(saved=saved, loaded=loaded):
                learnt, _ = self.report("train_mnist", *few, f"--dtype={saved}", "--num-epochs=3", f"--save-params={path}")
                first, _ = self.report("train_mnist", *few, f"--dtype={loaded}", "--num-epochs=0", f"--load-params={path}")
                self.assertLess(abs(first["test_accuracy"] - learnt["test_accuracy"]), 0.02)
                on, _ = self.report("train_mnist", *few, f"--dtype={loaded}", "--num-epochs=1", f"--load-params={path}")
                self.assertGreater(on["test_accuracy"], learnt["test_accuracy"] - 0.05)

    def test_a_run_goes_on_with_its_own_type(self):
        few = ["--network=mlp", "--num-examples=640", "--num-test-examples=16", f"--model-prefix={self.folder}/run"]
        for saved, other in (("float32", "bfloat16"), ("bfloat16", "float32")):
            for old in self.folder.glob("run-*"):
                old.unlink()
            self.train("train_mnist", *few, f"--dtype={saved}", "--num-epochs=1")
            for flag in ("--resume", "--load-epoch=1"):
                with self.subTest(saved=saved, flag=flag):
                    self.assert_refused(self.run_program("train_mnist", *few, f"--dtype={other}", "--num-epochs=2", flag),
                                        "run-0001.safetensors", f"is {saved}", f"the model has {other}", "--dtype", "--load-params")

    def test_another_type_is_refused(self):
        for program in ("train_mnist", "train_cifar10", "train_text"):
            self.assert_refused(self.run_program(program, "--dtype=float16"), "--dtype is 'float16'", "float32, bfloat16")


class LabelSmoothing(Options):
    FLAGS = ["--network=mlp", "--num-examples=3000", "--num-test-examples=500"]

    def loss_of_first_step(self, smoothing, workers=0):
        flags = ["--batch-size=32", "--kv-store=dist_sync"] if workers else ["--batch-size=64"]
        report, _ = self.report("train_mnist", *self.FLAGS, *flags, "--num-steps=1", f"--label-smoothing={smoothing}", workers=workers)
        return report["train_loss"][0]

    # The same weights and the same batch: loss(s) = (1 - s) loss(0) + s times the mean of all classes' losses.
    def test_the_loss_is_mixed_with_that_of_all_classes(self):
        for workers in (0, 2):
            plain, tenth, fifth = (self.loss_of_first_step(s, workers) for s in (0, 0.1, 0.2))
            self.assertGreater(abs(tenth - plain), 1e-4)
            self.assertAlmostEqual(fifth - plain, 2 * (tenth - plain), delta=1e-5)

    # No prediction has a lower loss than the entropy of the smoothed label, 0.91 and nine times 0.01.
    def test_it_learns_and_its_loss_has_a_floor(self):
        floor = -0.91 * math.log(0.91) - 0.09 * math.log(0.01)
        flags = [*self.FLAGS, "--num-epochs=8"]
        plain, _ = self.report("train_mnist", *flags)
        self.assertLess(plain["train_loss"][-1], floor)
        for workers, place in ((0, ["--num-devices=2", "--kv-store=device"]), (2, ["--batch-size=32", "--kv-store=dist_sync"])):
            smoothed, _ = self.report("train_mnist", *flags, *place, "--label-smoothing=0.1", workers=workers)
            self.assertGreater(smoothed["train_loss"][-1], floor)
            self.assertGreater(smoothed["test_loss"], floor)
            self.assertGreater(smoothed["test_accuracy"], plain["test_accuracy"] - 0.05)

    # At 1 all labels were alike.
    def test_what_is_no_share_is_refused(self):
        for value in ("-0.1", "1", "1.5"):
            self.assert_refused(self.run_program("train_mnist", f"--label-smoothing={value}"), f"--label-smoothing is {value};", "below 1")
        for value in ("nan", "inf", "much"):
            self.assert_refused(self.run_program("train_mnist", f"--label-smoothing={value}"), "--label-smoothing", f"'{value}'")


class EvalSteps(Options):
    """640 samples in batches of 32: 20 steps an epoch."""

    def setUp(self):
        super().setUp()
        write_bars(self.folder, 640)

    def flags(self, workers, *more):
        place = ["--batch-size=16", "--kv-store=dist_sync"] if workers else ["--batch-size=32"]
        return [f"--data-dir={self.folder}", "--network=mlp", "--lr=0.001", "--seed=3", *place, *more]

    def evaluations(self, workers, *more):
        output = self.train("train_mnist", *self.flags(workers, *more), workers=workers)
        return re.findall(r"((?:step|epoch) \d+) test accuracy (\S+)", output)

    def test_they_come_at_their_steps(self):
        for workers in (0, 2):
            for every, expected in ((0, ["epoch 1", "epoch 2"]), (10, ["step 10", "epoch 1", "step 30", "epoch 2"]),
                                    (7, ["step 7", "step 14", "epoch 1", "step 21", "step 28", "step 35", "epoch 2"]),
                                    (40, ["epoch 1", "epoch 2"])):
                with self.subTest(workers=workers, every=every):
                    seen = self.evaluations(workers, "--num-epochs=2", f"--eval-steps={every}")
                    self.assertEqual([when for when, _ in seen], expected)

    # Each is of the weights of its moment, and in passing: what is trained is the same.
    def test_what_is_trained_does_not_depend_on_them(self):
        for workers in (0, 2):
            seen, saved = {}, []
            for every in (0, 10):
                path = self.folder / f"{every}.safetensors"
                seen[every] = dict(self.evaluations(workers, "--num-epochs=2", f"--eval-steps={every}", f"--save-params={path}"))
                saved.append(path.read_bytes())
            self.assertEqual(saved[0], saved[1])
            self.assertEqual(seen[0], {when: seen[10][when] for when in ("epoch 1", "epoch 2")})
            self.assertNotEqual(seen[10]["step 10"], seen[10]["epoch 2"])

    # The rhythm is that of the run, not of the process.
    def test_a_run_that_goes_on_keeps_the_rhythm(self):
        for workers in (0, 2):
            for stop in (17, 20, 21):
                with self.subTest(workers=workers, stop=stop):
                    prefix = f"--model-prefix={self.folder}/{workers}-{stop}"
                    whole = self.evaluations(workers, "--eval-steps=7", "--num-epochs=2")
                    first = self.evaluations(workers, "--eval-steps=7", prefix, "--save-steps=100", f"--num-steps={stop}")
                    second = self.evaluations(workers, "--eval-steps=7", prefix, "--resume", "--num-epochs=2")
                    self.assertEqual(first + second, whole)

    def test_a_count_below_0_is_refused(self):
        self.assert_refused(self.run_program("train_mnist", "--eval-steps=-1"), "--eval-steps is -1", "at least 0")


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
