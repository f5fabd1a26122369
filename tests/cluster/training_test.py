"""train_mnist, train_cifar10 and train_text are one program for one device, k devices and n workers.

They learn; and however the batch is spread, what they learn is the same (design: "Equivalence"), with networks without
batch normalisation, whose statistics are each device's own.

Usage: training_test.py BIN_DIR
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import safetensors_file  # noqa: E402
from cluster import unwrapped  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = None
QUIET = ["--disp-batches=0", "--num-test-examples=200"]
STEPS = 12

# name: (workers, flags of each) for a batch of 32 in all
PLACEMENTS = {
    "one device": (0, ["--batch-size=32"]),
    "two devices": (0, ["--batch-size=32", "--num-devices=2", "--kv-store=device"]),
    "two workers": (2, ["--batch-size=16", "--kv-store=dist_sync"]),
    "two workers of two devices": (2, ["--batch-size=16", "--num-devices=2", "--kv-store=dist_device_sync"]),
}

# Smooth networks (no ReLU, no largest value); 99 samples: the last batch of 3 gives the first worker two and the other one, so that one of
# its devices has none.
SMOOTH = {
    "train_mnist": ["--network=lenet_avg", "--lr=0.05"],
    "train_cifar10": ["--network=lenet_avg", "--lr=0.05"],
    "train_text": ["--network=text_mean", "--optimizer=sgd", "--lr=1"],
}
RECURRENT = ("text_lstm", "text_gru")


def run(program, *flags, workers=0):
    command = [str(BIN / program), *map(str, flags)]
    if workers:
        command = [sys.executable, str(ROOT / "tools/launch.py"), "-n", str(workers), "-s", "2", *command]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


class Training(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def succeed(self, *arguments, **options):
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def accuracy(self, *arguments, **options):
        return float(re.search(r"final test accuracy (\S+)", self.succeed(*arguments, **options)).group(1))

    def assert_refused(self, done, *words, code=2):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, unwrapped(done.stderr))

    def test_however_the_batch_is_spread_the_parameters_agree(self):
        for program, flags in SMOOTH.items():
            for last_batch in ("keep", "rollover") if program == "train_text" else ("keep",):
                arrays = {}
                for placement, (workers, place) in PLACEMENTS.items():
                    saved = self.folder / "parameters.safetensors"
                    self.succeed(program, *QUIET, *flags, *place, "--num-examples=99", f"--num-steps={STEPS}", f"--last-batch={last_batch}",
                                 "--seed=3", f"--save-params={saved}", workers=workers)
                    arrays[placement] = safetensors_file.load(saved)
                one = arrays["one device"]
                for placement, array in arrays.items():
                    apart, name = safetensors_file.worst_difference(array, one)
                    print(f"{program}, {last_batch}, {placement}: {apart:.1e} from one device ({name})")
                    with self.subTest(program=program, last_batch=last_batch, placement=placement):
                        self.assertLess(apart, 1e-5)

    def test_recurrent_networks_agree_too(self):
        for network in RECURRENT:
            arrays = {}
            for placement in ("one device", "two workers of two devices"):
                workers, place = PLACEMENTS[placement]
                saved = self.folder / "parameters.safetensors"
                self.succeed("train_text", *QUIET, f"--network={network}", "--optimizer=sgd", "--lr=1", *place, "--num-examples=99",
                             f"--num-steps={STEPS}", "--seed=3", f"--save-params={saved}", workers=workers)
                arrays[placement] = safetensors_file.load(saved)
            apart, name = safetensors_file.worst_difference(*arrays.values())
            print(f"{network}: {apart:.1e} from one device ({name})")
            with self.subTest(network=network):
                self.assertLess(apart, 1e-5)

    def test_the_parameters_move_and_last_batch_matters(self):
        saved = {}
        for steps, last_batch in ((0, "keep"), (STEPS, "keep"), (STEPS, "discard"), (STEPS, "rollover")):
            path = self.folder / f"{steps}{last_batch}.safetensors"
            self.succeed("train_text", *QUIET, *SMOOTH["train_text"], "--batch-size=32", "--num-examples=99", f"--num-steps={steps}",
                         f"--last-batch={last_batch}", "--seed=3", f"--save-params={path}")
            saved[steps, last_batch] = safetensors_file.load(path)
        results = list(saved.values())
        for i, one in enumerate(results):
            for other in results[:i]:
                self.assertGreater(safetensors_file.worst_difference(one, other)[0], 1e-4)

    def test_epochs_of_each_last_batch(self):
        for last_batch, steps in (("keep", [4, 4]), ("discard", [3, 3]), ("rollover", [3, 3])):
            report = self.folder / "report.json"
            self.succeed("train_text", *QUIET, "--batch-size=32", "--num-examples=99", "--num-epochs=2", f"--last-batch={last_batch}",
                         f"--json={report}")
            self.assertEqual(json.loads(report.read_text())["steps"], sum(steps), last_batch)

    # Chance is 0.1, and a loss of ln 10 = 2.3; after three epochs 0.47 and 1.67 were measured.
    def test_resnet_learns_pictures(self):
        report = self.folder / "report.json"
        self.succeed("train_cifar10", *QUIET, "--num-examples=1500", "--num-epochs=3", "--optimizer=adam", "--lr=0.003", "--augment=false",
                     "--batch-size=16", "--num-devices=2", "--kv-store=device", f"--json={report}")
        learnt = json.loads(report.read_text())
        print(f"resnet20: loss {learnt['train_loss']}, test accuracy {learnt['test_accuracy']:.4f}")
        self.assertLess(learnt["train_loss"][-1], 2.1)
        self.assertGreater(learnt["test_accuracy"], 0.2)

    def test_resnet_in_a_job(self):
        for store in ("dist_sync", "dist_device_sync"):
            output = self.succeed("train_cifar10", *QUIET, "--num-examples=67", "--num-epochs=1", "--batch-size=16", "--num-devices=2",
                                  f"--kv-store={store}", workers=2)
            self.assertIn("resnet20 on synthetic pictures, 67 images", output)
            self.assertIn(f"{store}, 2 workers x 2 devices", output)

    # Chance is 0.25.
    def test_texts_are_learnt(self):
        flags = [*QUIET, "--num-examples=8000", "--num-epochs=8"]
        self.assertGreater(self.accuracy("train_text", *flags), 0.9)
        self.assertGreater(self.accuracy("train_text", *flags, "--batch-size=32", "--kv-store=dist_sync", workers=2), 0.9)

    def test_recurrent_networks_learn_texts(self):
        for network, epochs, workers, more in (("text_lstm", 6, 0, []), ("text_gru", 6, 0, ["--num-devices=2", "--kv-store=device"]),
                                               ("text_gru", 6, 2, ["--batch-size=32", "--kv-store=dist_sync"])):
            with self.subTest(network=network, workers=workers):
                self.assertGreater(self.accuracy("train_text", *QUIET, f"--network={network}", f"--num-epochs={epochs}", *more,
                                                 workers=workers), 0.9)

    def test_texts_of_files(self):
        self.write_texts()
        data = [f"--data-dir={self.folder}", "--num-epochs=12", "--batch-size=10", "--text-length=8", "--embedding=16", "--disp-batches=0"]
        for network, flag in (("text_mean", "--lr=0.05"), ("text_mlp", "--lr=0.05"), ("text_cnn", "--num-epochs=5"),
                              ("text_gru", "--num-epochs=5")):
            with self.subTest(network=network):
                self.assertEqual(self.accuracy("train_text", *data, f"--network={network}", flag), 1.0)
        self.assert_refused(run("train_text", *data, "--num-examples=201"), "--num-examples is 201", "200 texts")
        self.assert_refused(run("train_text", *data, "--vocabulary=2"), "--vocabulary is 2", "at least 3")
        self.assert_refused(run("train_text", *data, "--text-length=100000"), "--text-length is 100000", "at most")

    def test_files_of_texts_that_are_none(self):
        for name, content, words in (
            ("train.tsv", "good\tfine\nno label here\n", ["train.tsv", "line 2", "tab"]),
            ("train.tsv", "\tfine\n", ["train.tsv", "line 1", "no label"]),
            ("train.tsv", "", ["train.tsv", "no texts"]),
            ("test.tsv", "good\tfine\n\nugly\thm\n", ["test.tsv", "line 3", "'ugly'"]),
        ):
            with self.subTest(content=content):
                self.write_texts()
                (self.folder / name).write_text(content)
                self.assert_refused(run("train_text", f"--data-dir={self.folder}"), *words, code=1)
        (self.folder / "test.tsv").unlink()
        self.assert_refused(run("train_text", f"--data-dir={self.folder}"), "test.tsv", code=1)

    def write_texts(self):
        lines = [f"{'good' if i % 2 else 'bad'}\tThe film, no. {i % 7}: it's {'WONDERFUL' if i % 2 else 'dreadful'}!" for i in range(200)]
        (self.folder / "train.tsv").write_text("\r\n".join(lines), encoding="utf-8-sig", newline="")
        (self.folder / "test.tsv").write_text("good\tunheard-of words, but wonderful\n\nbad\tdreadful\n")

    def test_class_weights_choose_what_is_seen(self):
        self.write_texts()
        data = [f"--data-dir={self.folder}", "--num-epochs=12", "--batch-size=10", "--disp-batches=0"]
        self.assertEqual(self.accuracy("train_text", *data, "--class-weights=1,0"), 0.5)  # nothing but "bad" was ever seen
        self.assertEqual(self.accuracy("train_text", *data, "--class-weights=balanced"), 1.0)

    def test_bad_flags_are_refused_alike(self):
        for program in ("train_mnist", "train_cifar10", "train_text"):
            for flag, words in (
                ("--last-batch=drop", ["--last-batch is 'drop'", "keep, discard, rollover"]),
                ("--class-weights=heavy", ["--class-weights is 'heavy'", "balanced"]),
                ("--class-weights=1,2", ["--class-weights has 2 weights", "classes"]),
                ("--class-weights=1,-1", ["--class-weights"]),
                ("--loader-threads=0", ["--loader-threads is 0", "at least 1"]),
                ("--num-test-examples=0", ["--num-test-examples is 0"]),
                ("--optimizer=sgdd", ["sgdd", "adam"]),
                ("--network=resnet", ["--network is 'resnet'", {"train_mnist": "lenet", "train_cifar10": "resnet20"}.get(program, "text_cnn")]),
                ("--num-devices=0", ["--num-devices"]),
                ("--resume", ["--model-prefix"]),
                ("--top-k=99", ["--top-k is 99", "classes"]),
            ):
                with self.subTest(program=program, flag=flag):
                    self.assert_refused(run(program, "--num-examples=64", "--num-test-examples=64", flag), *words)
        self.assert_refused(run("train_mnist", "--class-weights=balanced", "--shuffle=false"), "--class-weights", "--shuffle")
        self.assert_refused(run("train_cifar10", f"--data-dir={self.folder}/none"), "none", "get_cifar10.py", code=1)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
