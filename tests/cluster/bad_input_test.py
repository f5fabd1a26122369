"""What users get wrong: each mistake gets a message that says what, where and what to do, and the right exit code; no crash, no hang.

Usage: bad_input_test.py BIN_DIR
"""
import gzip
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from cluster import Cluster, unwrapped  # noqa: E402

BIN = None


def idx(type_code, shape, body):
    return bytes([0, 0, type_code, len(shape)]) + b"".join(struct.pack(">I", n) for n in shape) + body


def write_mnist(folder, images=None, labels=None):
    """A small sound data set, with what is given in its place."""
    n = 64
    sound_images = idx(8, (n, 28, 28), bytes(n * 784))
    sound_labels = idx(8, (n,), bytes(i % 10 for i in range(n)))
    for split in ("train", "t10k"):
        (folder / f"{split}-images-idx3-ubyte").write_bytes(images if images is not None and split == "train" else sound_images)
        (folder / f"{split}-labels-idx1-ubyte").write_bytes(labels if labels is not None and split == "train" else sound_labels)


def write_safetensors(path, arrays):
    header, data = {}, b""
    for name, (shape, values) in arrays.items():
        raw = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class BadInput(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def run_program(self, *flags, program="train_mnist"):
        return subprocess.run([str(BIN / program), *map(str, flags)], capture_output=True, text=True, timeout=120)

    def assert_refused(self, done, *words, code=None):
        text = done.stdout + done.stderr
        self.assertGreater(done.returncode, 0, f"ended with {done.returncode} (a signal?):\n{text}")
        if code is not None:
            self.assertEqual(done.returncode, code, text)
        for word in words:
            self.assertIn(word, unwrapped(text))
        self.assertLess(len(text.splitlines()), 12, f"too much noise:\n{text}")

    def test_flags(self):
        for flags, words in (
            (["--bogus=1"], ["--bogus"]),
            (["--num-epoch=1"], ["--num-epochs"]),
            (["--optimzer", "sgd"], ["unknown flag '--optimzer' (did you mean --optimizer?); --help lists every flag"]),
            (["--shuffle", "false"], ["stray", "false"]),
            (["--lr=nan"], ["--lr", "nan"]),
            (["--lr=inf"], ["--lr"]),
            (["--batch-size=0"], ["--batch-size"]),
            (["--batch-size=-5"], ["--batch-size"]),
            (["--batch-size=1e3"], ["--batch-size"]),
            (["--num-devices=0"], ["--num-devices"]),
            (["--network=resnet"], ["resnet", "lenet"]),
            (["--kv-store=dist_synk"], ["dist_synk", "dist_sync"]),
            (["--optimizer=sgdd"], ["sgdd", "adam"]),
            (["--num-devices=2", "--work-load-list=1,2,3"], ["--work-load-list"]),
            (["--work-load-list=1,x", "--num-devices=2"], ["--work-load-list"]),
            (["--top-k=99"], ["--top-k", "10 classes"]),
            (["--seed=-1"], ["--seed", "at least 0"]),
            (["--num-examples=0"], ["--num-examples", "at least 1"]),
            (["extra"], ["stray", "extra"]),
            (["--gpus=99"], ["--gpus", "gpu(99)", "--num-devices"]),
            (["--gpus=0,x"], ["--gpus", "0,x"]),
            (["-lr", "0.1"], ["-lr", "two dashes"]),
            (["--num-epochs=99999999999999999999"], ["--num-epochs", "whole number"]),
        ):
            with self.subTest(flags=flags):
                self.assert_refused(self.run_program(*flags), *words, code=2)

    def test_a_result_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([BIN / "train_mnist", "--num-steps=1", "--num-examples=64"], stdout=full, stderr=subprocess.PIPE,
                                  text=True, timeout=120)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("standard output could not be written", unwrapped(done.stderr))

    def test_help_lists_flags_and_succeeds(self):
        done = self.run_program("--help")
        self.assertEqual(done.returncode, 0)
        for flag in ("network", "kv-store", "gpus", "num-devices", "batch-size", "num-epochs", "lr", "lr-factor", "lr-step-epochs",
                     "optimizer", "mom", "wd", "disp-batches", "model-prefix", "save-period", "load-epoch", "top-k", "data-dir",
                     "seed", "work-load-list", "load-params", "save-params", "num-steps", "shuffle", "json"):
            self.assertIn(f"--{flag} ", done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)

    def test_a_distributed_store_without_a_job(self):
        self.assert_refused(self.run_program("--kv-store=dist_sync", "--num-steps=1"), "launch.py")

    def test_data_files(self):
        n = 64
        image_body, label_body = bytes(n * 784), bytes(n)
        sound = idx(8, (n, 28, 28), image_body)
        for name, images, labels, words in (
            ("empty", b"", None, ["train-images-idx3-ubyte"]),
            ("bad magic", b"\x01" + sound[1:], None, ["train-images-idx3-ubyte"]),
            ("wrong type", idx(0x0D, (n, 28, 28), image_body), None, ["train-images-idx3-ubyte"]),
            ("wrong number of axes", idx(8, (n, 784), image_body), None, ["train-images-idx3-ubyte"]),
            ("truncated", sound[:-1], None, ["train-images-idx3-ubyte"]),
            ("trailing bytes", sound + b"x", None, ["train-images-idx3-ubyte"]),
            ("huge extent", idx(8, (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF), b""), None, ["train-images-idx3-ubyte"]),
            ("fewer labels", None, idx(8, (n - 1,), label_body[:-1]), ["64", "63"]),
            ("label out of range", None, idx(8, (n,), b"\x0b" + label_body[1:]), ["11"]),
        ):
            with self.subTest(name):
                write_mnist(self.folder, images, labels)
                self.assert_refused(self.run_program(f"--data-dir={self.folder}", "--num-steps=1"), *words)

    def test_a_part_of_real_data(self):
        write_mnist(self.folder)  # 64 images
        data = [f"--data-dir={self.folder}", "--num-epochs=1", "--batch-size=10"]
        self.assert_refused(self.run_program(*data, "--num-examples=65"), "--num-examples is 65", "64 images", code=2)
        done = self.run_program(*data, "--num-examples=30")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(", 30 images\n", done.stdout)

    def test_a_corrupt_gzip(self):
        write_mnist(self.folder)
        plain = self.folder / "train-images-idx3-ubyte"
        packed = gzip.compress(plain.read_bytes())
        plain.unlink()
        (self.folder / "train-images-idx3-ubyte.gz").write_bytes(packed[: len(packed) // 2])
        self.assert_refused(self.run_program(f"--data-dir={self.folder}", "--num-steps=1"), "train-images-idx3-ubyte.gz")

    def test_missing_data_says_what_to_do(self):
        self.assert_refused(self.run_program(f"--data-dir={self.folder}/nowhere", "--num-steps=1"), "nowhere", "get_mnist.py")

    def test_parameter_files(self):
        path = self.folder / "p.safetensors"
        write_safetensors(path, {"conv1.weight": ([20, 1, 5, 5], [0.0] * 500)})
        self.assert_refused(self.run_program(f"--load-params={path}", "--num-steps=1", "--network=lenet"), "conv1.bias")
        good = self.folder / "good.safetensors"
        self.assertEqual(self.run_program(f"--save-params={good}", "--num-steps=0", "--network=lenet").returncode, 0)
        self.assert_refused(self.run_program(f"--load-params={good}", "--num-steps=1", "--network=mlp"), str(good))
        data = good.read_bytes()
        for name, corrupt in (("truncated", data[:-4]), ("no header", data[:4]), ("huge header", b"\xff" * 8 + data[8:]), ("garbage", b"x" * 100)):
            with self.subTest(name):
                path.write_bytes(corrupt)
                self.assert_refused(self.run_program(f"--load-params={path}", "--num-steps=1"), str(path))
        self.assert_refused(self.run_program(f"--load-params={self.folder}/none", "--num-steps=1"), "none")

    def test_an_output_that_cannot_be_written_is_refused_before_training(self):
        for flag in ("--save-params", "--json", "--model-prefix"):
            with self.subTest(flag):
                done = self.run_program(f"{flag}={self.folder}/no/such/folder/file")
                self.assert_refused(done, flag, "there is no folder", "no/such/folder", code=2)
                self.assertNotIn("epoch", done.stdout)
        self.assert_refused(self.run_program(f"--save-params={self.folder}"), "is a folder", code=2)
        (self.folder / "x").unlink(missing_ok=True)
        same = self.run_program(f"--save-params={self.folder}/x", f"--json={self.folder}/../{self.folder.name}/x")
        self.assert_refused(same, "--json is", "which --save-params writes to, too", code=2)

    def test_an_output_that_cannot_be_written(self):
        self.assert_refused(self.run_program(f"--save-params={self.folder}/no/such/folder/p.safetensors", "--num-steps=0"), "no/such/folder")

    def test_a_temporary_folder_that_is_not_there(self):
        done = subprocess.run([BIN / "kv_tour"], capture_output=True, text=True, timeout=60, env={**os.environ, "TMPDIR": "/no/such/folder"})
        self.assert_refused(done, "TMPDIR is '/no/such/folder', which is no folder")

    def test_a_bad_environment(self):
        done = subprocess.run([str(BIN / "train_mnist"), "--num-steps=0"], capture_output=True, text=True, timeout=60,
                              env={"DMLC_ROLE": "worker", "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": "x",
                                   "DMLC_NUM_WORKER": "1", "DMLC_NUM_SERVER": "1"})
        self.assert_refused(done, "DMLC_PS_ROOT_PORT", code=2)

    def test_bad_usage_before_a_job_is_2_and_a_mistake_within_it_is_1(self):
        shares = ["--num-devices=3", "--work-load-list=1000000,1,1", "--num-steps=1", "--num-examples=128"]
        self.assert_refused(self.run_program(*shares), "Some splits are empty", code=2)
        with Cluster(BIN, 1, 1) as cluster:
            scheduler, servers, workers = cluster.start_all([BIN / "train_mnist", "--kv-store=dist_sync", *shares])
            self.assertEqual(workers[0].wait(60), 1, workers[0].output())
            self.assertIn("Some splits are empty", workers[0].output())
            for process in (scheduler, *servers):
                self.assertEqual(process.wait(60), 1, process.output())
                self.assertIn("Some splits are empty", process.output())


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
