"""train_mnist --load-epoch goes on where it was: four epochs are two and two, to the last bit.

Usage: resume_test.py BIN_DIR
"""
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import safetensors_file  # noqa: E402
from cluster import unwrapped  # noqa: E402
from examples_test import write_bars  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = None
# A rate at which the bars are not learnt to the last bit: gradients that are denormal numbers take ten times as long.
RATE = 0.005
SMALL = ["--network=mlp", "--batch-size=32", "--lr-step-epochs=1,3", "--lr-factor=0.5", f"--lr={RATE}", "--seed=3"]


class Resume(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        write_bars(self.folder, 640)

    def command(self, workers, *flags):
        command = [str(BIN / "train_mnist"), f"--data-dir={self.folder}", *SMALL, *flags]
        if workers:
            command = [sys.executable, str(ROOT / "tools/launch.py"), "-n", str(workers), "-s", "2", *command]
        return command

    def train(self, workers, *flags):
        return subprocess.run(self.command(workers, *flags), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)

    def parameters(self, done, path):
        self.assertEqual(done.returncode, 0, done.stdout)
        return path.read_bytes()

    def in_one_go(self, workers, *flags):
        path = self.folder / "whole.safetensors"
        return self.parameters(self.train(workers, "--num-epochs=4", f"--save-params={path}", *flags), path)

    def remove(self, *names):
        for name in names:
            for path in self.folder.glob(name):
                path.unlink()

    def first_half(self, workers, *flags):
        self.remove("half-*")
        done = self.train(workers, "--num-epochs=2", f"--model-prefix={self.folder}/half", *flags)
        self.assertEqual(done.returncode, 0, done.stdout)

    def second_half(self, workers, *flags):
        path = self.folder / "resumed.safetensors"
        self.remove("half-0003*", "half-0004*")
        done = self.train(workers, "--num-epochs=4", "--load-epoch=2", f"--model-prefix={self.folder}/half", f"--save-params={path}", *flags)
        return self.parameters(done, path), done.stdout

    def test_two_halves_are_the_whole(self):
        for store, workers, mom in (("local", 0, 0), ("local", 0, 0.9), ("dist_sync", 2, 0), ("dist_sync", 2, 0.9), ("dist_async", 1, 0.9)):
            with self.subTest(store=store, mom=mom):
                flags = [f"--kv-store={store}", f"--mom={mom}"]
                whole = self.in_one_go(workers, *flags)
                self.first_half(workers, *flags)
                resumed, output = self.second_half(workers, *flags)
                self.assertEqual(resumed, whole, output)
                for epoch in (3, 4):
                    self.assertIn(f"epoch {epoch} loss", output)
                self.assertNotIn("epoch 2 loss", output)

    def test_the_schedule_goes_on_without_states(self):
        whole = self.in_one_go(0, "--mom=0")
        self.first_half(0, "--mom=0")
        (self.folder / "half-0002.states.safetensors").unlink()
        resumed, output = self.second_half(0, "--mom=0")
        self.assertEqual(resumed, whole)
        self.assertIn("none were saved", unwrapped(output))

    # Batches of 64 take half the steps: an epoch stays an epoch, whatever the updates made so far.
    def test_epochs_mean_epochs_with_another_batch(self):
        self.first_half(0, "--mom=0", "--shuffle=false")
        resumed, _ = self.second_half(0, "--mom=0", "--shuffle=false", "--batch-size=64")
        path = self.folder / "spelt-out.safetensors"
        done = self.train(0, "--mom=0", "--shuffle=false", "--batch-size=64", f"--load-params={self.folder}/half-0002.safetensors",
                          f"--lr={RATE / 2}", "--lr-step-epochs=1", "--num-epochs=2", f"--save-params={path}")
        self.assertEqual(resumed, self.parameters(done, path))

    def test_training_goes_on_with_another_number_of_workers(self):
        self.first_half(0, "--mom=0.9")
        paths = [self.folder / "one.safetensors", self.folder / "two.safetensors"]
        paths[0].write_bytes(self.second_half(0, "--mom=0.9", "--batch-size=64")[0])
        paths[1].write_bytes(self.second_half(2, "--mom=0.9", "--kv-store=dist_sync")[0])
        apart, name = safetensors_file.worst_difference(*map(safetensors_file.load, paths))
        self.assertLess(apart, 1e-5, name)

    # A run that is killed at any step and goes on is the run that nobody disturbed.
    def test_a_run_killed_within_an_epoch_goes_on_to_the_last_bit(self):
        # Every third step of the run; an epoch has 20 steps of one worker, 10 of two.
        checkpoints = {0: ("0000-000003", "0001-000007", "0002-000005"), 2: ("0000-000003", "0001-000005", "0002-000004")}
        for store, workers, more in (("local", 0, []), ("dist_sync", 2, []), ("dist_sync", 2, ["--clip-global-norm=0.5"])):
            with self.subTest(store=store, more=more):
                flags = [f"--kv-store={store}", "--mom=0.9", "--num-epochs=4", *more]
                self.remove(f"{store}-*")
                whole = self.in_one_go(workers, *flags)
                prefix = f"{self.folder}/{store}"
                saving = [*flags, f"--model-prefix={prefix}", "--save-steps=3", "--save-period=100"]
                for killed_after in checkpoints[workers]:
                    self.kill_once(workers, pathlib.Path(f"{prefix}-{killed_after}.safetensors"), *saving, "--resume")
                path = self.folder / "resumed.safetensors"
                done = self.train(workers, *saving, "--resume", f"--save-params={path}")
                self.assertEqual(self.parameters(done, path), whole, done.stdout)
                self.assertRegex(unwrapped(done.stdout), r"goes on after epoch [23] and \d+ steps")

    def kill_once(self, workers, file, *flags):
        """Starts a run and kills all of it as soon as the checkpoint is there."""
        run = subprocess.Popen(self.command(workers, *flags), stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        end = time.monotonic() + 120
        while not file.exists() and run.poll() is None:
            self.assertLess(time.monotonic(), end, f"no {file}")
            time.sleep(0.002)
        run.kill()
        self.assertEqual(run.wait(20), -signal.SIGKILL, f"it ended before it was killed at {file.name}")
        while self.still_run(str(file.parent)):  # launch.py's guard kills the rest
            self.assertLess(time.monotonic(), end, "processes of the job are left")
            time.sleep(0.02)

    def still_run(self, folder):
        def names(process):
            try:
                return f"{folder}/" in (process / "cmdline").read_text()
            except OSError:
                return False
        return any(names(p) for p in pathlib.Path("/proc").iterdir() if p.name.isdigit())

    def test_resume_with_nothing_to_go_on_from_begins(self):
        whole = self.in_one_go(0)
        path = self.folder / "begun.safetensors"
        done = self.train(0, "--resume", f"--model-prefix={self.folder}/none", "--num-epochs=4", f"--save-params={path}")
        self.assertEqual(self.parameters(done, path), whole)

    # Another membership of the same batch may take over at any step, another batch at the end of an epoch.
    def test_within_an_epoch_a_run_goes_on_with_the_same_batches_alone(self):
        prefix = f"--model-prefix={self.folder}/half"
        self.first_half(0, "--save-steps=7", "--num-steps=27", "--batch-size=64")
        for flags, words in ((["--batch-size=32"], "the batch of all workers was 64 and is 32"),
                             (["--num-examples=320"], "the number of samples was 640 and is 320"),
                             (["--last-batch=discard"], "the last batch was keep and is discard"),
                             (["--class-weights=balanced"], "class weights were none and are "),
                             (["--seed=9"], "in the order of --seed 3 and would go on in that of --seed 9"),
                             (["--shuffle=false"], "in the order of --seed 3 and would go on in that of --shuffle=false")):
            done = self.train(0, prefix, "--resume", "--batch-size=64", "--num-epochs=4", *flags)
            self.assertEqual(done.returncode, 1, done.stdout)
            for word in (f"cannot go on from {self.folder}/half-0002-000007.safetensors, within epoch 3: ", words, "--batch-size"):
                self.assertIn(word, unwrapped(done.stdout))
        done = self.train(2, prefix, "--resume", "--batch-size=32", "--num-epochs=3", "--kv-store=dist_sync")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(self.train(0, prefix, "--resume", "--num-epochs=4").returncode, 0)

    # Each device has statistics of its own, and rank 0's are what is evaluated and saved.
    def test_batch_normalisation_goes_on_on_two_devices(self):
        small = ["--num-examples=24", "--num-test-examples=8", "--batch-size=8", "--num-devices=2", "--disp-batches=0"]
        for store, workers in (("local", 0), ("dist_sync", 2)):
            with self.subTest(store=store):
                def train(*flags):
                    launch = [sys.executable, str(ROOT / "tools/launch.py"), "-n", str(workers), "-s", "1"] if workers else []
                    done = subprocess.run([*launch, str(BIN / "train_cifar10"), f"--kv-store={store}", *small, *flags],
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
                    self.assertEqual(done.returncode, 0, done.stdout)
                prefix, ends = self.folder / store, [self.folder / f"{store}-{end}.params" for end in ("whole", "resumed")]
                train(f"--model-prefix={prefix}", "--num-epochs=1")
                self.assertTrue(pathlib.Path(f"{prefix}-0001.statistics.safetensors").exists())
                train(f"--model-prefix={prefix}", "--resume", "--num-epochs=2", f"--save-params={ends[1]}")
                train("--num-epochs=2", f"--save-params={ends[0]}")
                self.assertEqual(ends[0].read_bytes(), ends[1].read_bytes())

    # Else the newest checkpoint would be the old run's, and --resume would go on from that.
    def test_no_run_begins_among_another_ones_checkpoints(self):
        prefix = f"--model-prefix={self.folder}/half"
        self.first_half(0, "--save-steps=7")
        before = {path: path.read_bytes() for path in self.folder.glob("half-*")}
        for flags, words in (([], f"--model-prefix is '{self.folder}/half', where another run has left {self.folder}/half-0002.safetensors"),
                             (["--load-epoch=1"], "--load-epoch is 1, and")):
            done = self.train(0, prefix, "--num-epochs=3", *flags)
            self.assertEqual(done.returncode, 2, done.stdout)
            for word in (words, "half-0002.safetensors", "--resume goes on from it"):
                self.assertIn(word, unwrapped(done.stdout))
        self.assertEqual({path: path.read_bytes() for path in self.folder.glob("half-*")}, before)
        for flags in (["--load-epoch=2", "--num-epochs=2"], ["--load-epoch=1", "--num-epochs=1"], ["--resume", "--num-epochs=3"]):
            self.assertEqual(self.train(0, prefix, *flags).returncode, 0)

    def test_a_damaged_newest_checkpoint_names_the_one_before(self):
        prefix = f"--model-prefix={self.folder}/half"
        self.first_half(0)
        newest, before = self.folder / "half-0002.safetensors", self.folder / "half-0001.safetensors"
        states, statistics = (self.folder / f"half-0002.{what}.safetensors" for what in ("states", "statistics"))
        whole = newest.read_bytes()
        for damaged, content in ((newest, whole[:-4]), (newest, b""), (newest, whole[:9] + b"\xff\x1b[2J" + whole[14:]), (states, b"x" * 20),
                                 (statistics, b"x" * 20)):
            sound = damaged.read_bytes() if damaged.exists() else None
            damaged.write_bytes(content)
            done = subprocess.run(self.command(0, prefix, "--resume", "--num-epochs=3"), capture_output=True, timeout=60)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertNotIn(b"\x1b", done.stderr)
            self.assertIn(f"'{damaged}'", unwrapped(done.stderr.decode("ascii")))
            self.assertIn(f"; to go on from the checkpoint before, {before}, remove {newest}", unwrapped(done.stderr.decode("ascii")))
            damaged.unlink() if sound is None else damaged.write_bytes(sound)
        newest.unlink()
        done = self.train(0, prefix, "--resume", "--num-epochs=3")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("goes on after epoch 1", done.stdout)

    # In a job the workers may have no folder in common.
    def test_rank_0_alone_needs_the_checkpoint(self):
        flags = ["--kv-store=dist_sync", "--mom=0.9"]
        whole = self.in_one_go(2, *flags)
        self.first_half(2, *flags)
        for where in (["--load-epoch=2"], ["--resume"]):
            self.remove("half-0003*", "half-0004*")
            path = self.folder / "resumed.safetensors"
            folder = self.folder / where[0].strip("-")
            own = (f'if mkdir {folder} 2>/dev/null; then export DMLC_RANK=0; prefix={self.folder}/half; '
                   f'else export DMLC_RANK=1; prefix={folder}/half; fi; exec "$@" --model-prefix=$prefix')
            command = self.command(2, "--num-epochs=4", f"--save-params={path}", *flags, *where)
            at = command.index(str(BIN / "train_mnist"))
            command[at:at] = ["sh", "-c", own, "sh"]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
            self.assertEqual(self.parameters(done, path), whole, done.stdout)
            self.assertEqual(list(folder.iterdir()), [])

    def test_what_is_best_and_what_is_drawn_and_when_to_stop(self):
        best, report = self.folder / "best.safetensors", self.folder / "report.html"
        for workers, store in ((0, "local"), (2, "dist_sync"), (2, "dist_async")):
            done = self.train(workers, f"--kv-store={store}", "--num-epochs=30", "--lr=1e-30", "--early-stopping=2",
                              f"--best-params={best}", f"--report={report}")
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("stopped early after epoch 3", done.stdout)
            self.assertIn("<svg", report.read_text())
            report.unlink()
            best.unlink()
        for flags, words in ((["--resume"], "--resume needs --model-prefix"), (["--save-steps=2"], "--save-steps needs --model-prefix"),
                             (["--early-stopping=-1"], "--early-stopping"), ([f"--report={self.folder}/no/x.html"], "there is no folder")):
            done = self.train(0, *flags)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(words, unwrapped(done.stdout))

    def test_what_is_said(self):
        self.first_half(0)
        _, output = self.second_half(0, "--num-epochs=2")
        self.assertIn("nothing is left to train: --num-epochs is 2", output)
        self.assertIn("final test accuracy", output)
        _, output = self.second_half(0, "--num-epochs=2", "--seed=4")
        self.assertIn("warning: the epochs before were trained with --seed 3", unwrapped(output))
        for flags, code, words in ((["--load-epoch=3", f"--model-prefix={self.folder}/half"], 1, "half-0003.safetensors"),
                                   (["--load-epoch=2"], 2, "needs --model-prefix"),
                                   (["--load-epoch=2", f"--model-prefix={self.folder}/half", "--load-params=x"], 2, "--load-params")):
            done = self.train(0, *flags)
            self.assertEqual(done.returncode, code, done.stdout)
            self.assertIn(words, unwrapped(done.stdout))


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
