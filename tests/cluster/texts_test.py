"""What train_text saves knows its words: parameters are loaded and runs go on with the vocabulary that they were trained with.

Usage: texts_test.py BIN_DIR
"""
import json
import functools
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from cluster import Cluster, unwrapped  # noqa: E402
from safetensors_file import load, worst_difference  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = None
SMALL = ["--network=text_mean", "--embedding=8", "--batch-size=10", "--lr=0.05", "--disp-batches=0"]
LENGTH = "--text-length=8"
WORDS = {"good": [f"good{i}" for i in range(10)], "bad": [f"bad{i}" for i in range(10)]}


def lines(count, seed, often, seldom):
    """Texts of a class's own words; of five texts four are of the class `often`, which so has the lower ids."""
    draw = random.Random(seed)
    for i in range(count):
        label = often if i % 5 else seldom
        yield f"{label}\t{' '.join(draw.choices(WORDS[label], k=7))}\n"


def metadata(path):
    content = path.read_bytes()
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]


class Texts(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.data, self.other = self.folder / "data", self.folder / "other"
        for folder, classes in ((self.data, ("good", "bad")), (self.other, ("bad", "good"))):
            folder.mkdir()
            (folder / "train.tsv").write_text("".join(lines(400, 1, *classes)))
            (folder / "test.tsv").write_text("".join(lines(50, 2, "good", "bad")))
        self.saved = self.folder / "saved.safetensors"

    def run_program(self, data, *flags, workers=0):
        command = [str(BIN / "train_text"), *SMALL, *([f"--data-dir={data}", LENGTH] if data else []), *map(str, flags)]
        if workers:
            command = [sys.executable, str(ROOT / "tools/launch.py"), "-n", str(workers), "-s", "2", *command, "--kv-store=dist_sync"]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)

    def train(self, data, *flags, **options):
        done = self.run_program(data, *flags, **options)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def accuracy(self, data, *flags, **options):
        return float(re.search(r"final test accuracy (\S+)", self.train(data, *flags, **options)).group(1))

    def assert_refused(self, done, *words, code=2):
        self.assertEqual(done.returncode, code, done.stdout)
        for word in words:
            self.assertIn(word, unwrapped(done.stdout))

    def train_and_save(self):
        learnt = self.accuracy(self.data, "--num-epochs=4", f"--save-params={self.saved}")
        self.assertEqual(learnt, 1.0)
        return learnt

    def test_the_other_file_has_the_same_words_in_another_order(self):
        self.train_and_save()
        other = self.folder / "other.safetensors"
        self.train(self.other, "--num-epochs=0", f"--save-params={other}")
        vocabularies = [metadata(path)["vocabulary"].split("\n") for path in (self.saved, other)]
        self.assertEqual(vocabularies[0][:2], ["<pad>", "<unk>"])
        self.assertEqual(set(vocabularies[0]), set(vocabularies[1]))
        self.assertEqual(set(vocabularies[0][2:12]), set(WORDS["good"]))
        self.assertEqual(set(vocabularies[1][2:12]), set(WORDS["bad"]))  # so parameters alone would take each class for the other
        self.assertEqual(metadata(self.saved)["labels"], "bad\ngood")
        self.assertEqual(metadata(self.saved)["text_length"], "8")

    def test_parameters_find_their_words_in_other_data(self):
        learnt = self.train_and_save()
        load = [f"--load-params={self.saved}", "--num-epochs=0"]
        self.assertEqual(self.accuracy(self.other, *load), learnt)
        self.assertEqual(self.accuracy(self.other, *load, workers=2), learnt)
        (self.other / "train.tsv").unlink()  # nobody reads it to evaluate
        self.assertEqual(self.accuracy(self.other, *load), learnt)
        (self.other / "test.tsv").write_text("good\tgood1 good2 never heard of\n")  # one label is enough
        self.assertEqual(self.accuracy(self.other, *load), 1.0)

    def test_how_far_texts_are_padded_changes_no_training(self):
        """7 words in 8 places or in 64. A mean takes words alone; a recurrent layer's products sum in another order."""
        for network, most in (("text_mlp", 0), ("text_mean", 0), ("text_lstm", 1e-4), ("text_gru", 1e-4)):
            with self.subTest(network=network):
                ends = [self.folder / f"{network}-{length}.safetensors" for length in (8, 64)]
                for length, end in zip((8, 64), ends):
                    self.train(self.data, f"--network={network}", f"--text-length={length}", "--num-epochs=1", f"--save-params={end}")
                self.assertLessEqual(worst_difference(*map(load, ends))[0], most)

    def test_short_texts_are_learnt_however_far_they_are_padded(self):
        for network in ("text_mlp", "text_mean", "text_cnn", "text_lstm"):
            with self.subTest(network=network):
                self.assertEqual(self.accuracy(self.data, f"--network={network}", "--text-length=512", "--num-epochs=4"), 1.0)

    def test_training_begins_with_the_words_of_the_parameters(self):
        self.train_and_save()
        tuned = self.folder / "tuned.safetensors"
        for workers in (0, 2):
            self.assertEqual(self.accuracy(self.other, f"--load-params={self.saved}", "--num-epochs=1", f"--save-params={tuned}",
                                           workers=workers), 1.0)
            self.assertEqual(metadata(tuned), metadata(self.saved))

    def test_what_parameters_do_not_know_is_refused(self):
        self.train_and_save()
        load = f"--load-params={self.saved}"
        (self.other / "train.tsv").write_text("good\tgood1\n\nugly\tgood1\n")
        self.assert_refused(self.run_program(self.other, load), "train.tsv", "line 3", "'ugly'", "saved.safetensors", code=1)
        self.assert_refused(self.run_program(self.data, load, "--text-length=9"), "--text-length is 9", "8 words")
        self.assert_refused(self.run_program(self.data, load, "--vocabulary=10"), "--vocabulary is 10", "22 ids")
        self.assert_refused(self.run_program(None, load), "--load-params", "--data-dir")
        for flag in ("--text-length=9", "--vocabulary=10"):
            self.assert_refused(self.run_program(None, flag), flag.split("=")[0], "is for texts of --data-dir")
        plain = self.folder / "plain.safetensors"
        self.train(None, "--num-steps=0", f"--save-params={plain}")
        self.assert_refused(self.run_program(self.data, f"--load-params={plain}"), "plain.safetensors", "no 'vocabulary'", "train on them")

    def test_a_run_goes_on_to_the_last_bit(self):
        # text_cnn drops out: its masks go on, too.
        for workers, network in ((0, "text_mlp"), (2, "text_mlp"), (0, "text_cnn")):
            with self.subTest(workers=workers, network=network):
                ends = [self.folder / name for name in ("whole.safetensors", "resumed.safetensors")]
                prefix, best = f"--model-prefix={self.folder}/{network}{workers}", self.folder / "best.safetensors"
                run = functools.partial(self.train, self.data, f"--network={network}", workers=workers)
                run("--num-steps=70", f"--save-params={ends[0]}")
                run(prefix, "--save-steps=30", "--num-steps=50", f"--best-params={best}")
                run(prefix, "--resume", "--num-steps=70", f"--save-params={ends[1]}")
                self.assertEqual(ends[0].read_bytes(), ends[1].read_bytes())
                for name in ("vocabulary", "labels", "text_length"):
                    self.assertEqual(metadata(best)[name], metadata(ends[0])[name])

    def test_a_run_does_not_go_on_with_other_words(self):
        prefix = [f"--model-prefix={self.folder}/run", "--num-epochs=2"]
        self.train(self.data, *prefix, "--num-epochs=1")
        newest = f"{self.folder}/run-0001.safetensors"
        for workers in (0, 2):
            self.assert_refused(self.run_program(self.other, *prefix, "--resume", workers=workers), newest, "'vocabulary'", "line 3 was '",
                                f"--load-params {newest}", code=1)
        self.assert_refused(self.run_program(self.data, *prefix, "--resume", "--text-length=9"), newest, "'text_length'", "was '8' and is '9'",
                            code=1)
        train = self.data / "train.tsv"
        train.write_text(train.read_text().replace("bad\t", "worse\t"))
        (self.data / "test.tsv").write_text("good\tgood1\n")
        self.assert_refused(self.run_program(self.data, *prefix, "--resume"), newest, "'labels'", "line 1 was 'bad' and is 'good'", code=1)
        self.assertEqual(self.accuracy(self.other, f"--load-params={newest}", "--num-epochs=0"), 1.0)  # the way out that is named

    def test_an_epoch_is_gone_on_with_on_other_data_with_the_words_it_had(self):
        prefix = f"--model-prefix={self.folder}/run"
        self.train(self.data, prefix, "--num-epochs=3")
        for workers in (0, 2):
            for old in self.folder.glob("run-0004*"):
                old.unlink()
            self.assertEqual(self.accuracy(self.other, prefix, "--load-epoch=3", "--num-epochs=4", workers=workers), 1.0)
            self.assertEqual(metadata(self.folder / "run-0004.safetensors")["vocabulary"],
                             metadata(self.folder / "run-0003.safetensors")["vocabulary"])

    def workers(self, *flags):
        """What the workers of a job say, each with flags of its own."""
        with Cluster(BIN, len(flags), 1) as cluster:
            cluster.start_scheduler()
            cluster.start_server(0)
            workers = [cluster.start_worker(rank, [BIN / "train_text", *SMALL, LENGTH, "--kv-store=dist_sync", *own])
                       for rank, own in enumerate(flags)]
            return [(worker.wait(60), unwrapped(worker.output())) for worker in workers]

    def test_workers_with_other_words_are_refused(self):
        said = self.workers([f"--data-dir={self.data}", "--num-epochs=1"], [f"--data-dir={self.other}", "--num-epochs=1"])
        self.assertNotEqual(said[0][0], 0)
        self.assertIn("training: worker 1 has the data's vocabulary: digest", said[1][1])

    def test_workers_with_other_flags_are_refused(self):
        same = [f"--data-dir={self.data}", f"--model-prefix={self.folder}/run", "--num-epochs=1"]
        for flag, name in (("--resume", "--resume: true, worker 0 --resume: false"),
                           ("--label-smoothing=0.5", "--label-smoothing: 0.5, worker 0 --label-smoothing: 0:"),
                           ("--wd=1", "wd: 1, worker 0 wd: 0:"), ("--batch-size=7", "batch_size: 7,")):
            for who in (0, 1):
                flags = [[*same, flag] if who == rank else same for rank in (0, 1)]
                with self.subTest(flag=flag, who=who):
                    said = self.workers(*flags)
                    self.assertNotEqual(said[0][0], 0)
                    self.assertNotEqual(said[1][0], 0)
                    self.assertIn(f"worker 1 has {name}" if who == 1 else f"worker 1 has {name.split(':')[0]}: ", said[1][1])

    def test_only_rank_0_needs_the_checkpoint_where_the_data_are_the_same(self):
        self.train(self.data, f"--model-prefix={self.folder}/run", "--num-epochs=1")
        for flag in ("--load-epoch=1", "--resume"):
            own = [[f"--data-dir={self.data}", "--num-epochs=2", flag, f"--model-prefix={self.folder}/{prefix}"] for prefix in ("run", "none")]
            self.assertEqual([code for code, _ in self.workers(*own)], [0, 0])
            for old in self.folder.glob("run-0002*"):
                old.unlink()


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
