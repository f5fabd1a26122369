"""tools/get_mnist.py against a server of our own: no network is needed."""
import hashlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "get_mnist.py"
sys.path.insert(0, str(TOOL.parent))
import download  # noqa: E402
import get_mnist  # noqa: E402
from mirror import Mirrors, Quiet, Stalls  # noqa: E402

REAL_DATASETS = {name: dict(dataset["files"]) for name, dataset in get_mnist.DATASETS.items()}
NAMES = list(get_mnist.DATASETS["mnist"]["files"])


class CutShort(Quiet):
    """Promises more than it sends."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"only this")


class GetMnist(Mirrors, unittest.TestCase):
    variable, main = "SLUICE_MNIST_MIRRORS", staticmethod(get_mnist.main)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name) / "new" / "out"
        self.source = pathlib.Path(folder.name) / "source"
        self.source.mkdir()
        self.contents = {name: f"contents of {name}".encode() * 1000 for name in NAMES}
        for name, contents in self.contents.items():
            (self.source / name).write_bytes(contents)
        sums = {name: hashlib.sha256(contents).hexdigest() for name, contents in self.contents.items()}
        real = get_mnist.DATASETS["mnist"]["files"]
        get_mnist.DATASETS["mnist"]["files"] = sums
        self.addCleanup(get_mnist.DATASETS["mnist"].__setitem__, "files", real)

    def test_fetches_all_files(self):
        self.assertEqual(self.run_tool(self.serve()), 0)
        self.assertEqual(self.files(), self.contents)

    def test_keeps_good_files_and_replaces_damaged_ones(self):
        self.out.mkdir(parents=True)
        (self.out / NAMES[0]).write_bytes(self.contents[NAMES[0]])
        (self.out / NAMES[1]).write_bytes(b"damaged")
        (self.source / NAMES[0]).unlink()  # so that asking for it would fail
        self.assertEqual(self.run_tool(self.serve()), 0)
        self.assertEqual(self.files(), self.contents)

    def test_goes_on_to_the_next_mirror(self):
        nobody = "http://127.0.0.1:9/"
        self.assertEqual(self.run_tool(nobody, self.serve(CutShort), self.serve()), 0)
        self.assertEqual(self.files(), self.contents)

    def test_a_wrong_checksum_fails_and_leaves_nothing(self):
        (self.source / NAMES[0]).write_bytes(b"not what was published")
        self.assertEqual(self.run_tool(self.serve()), 1)
        self.assertEqual(self.files(), {})

    def test_a_failure_does_not_touch_the_old_file(self):
        self.out.mkdir(parents=True)
        (self.out / NAMES[0]).write_bytes(b"old")
        self.assertEqual(self.run_tool(self.serve(CutShort)), 1)
        self.assertEqual(self.files(), {NAMES[0]: b"old"})

    def test_says_where_a_mirror_broke_off_and_what_it_lacked(self):
        failures = []
        for handler, name in ((CutShort, NAMES[0]), (Quiet, "nothing-of-this-name.gz")):
            self.out.mkdir(parents=True, exist_ok=True)
            failures += download.fetch_from_any([self.serve(handler)], self.out / name, "0" * 64, 5, 1 << 20)
        self.assertIn("broke off after 9 of 1000 bytes", failures[0])
        self.assertIn("HTTP 404", failures[1])
        self.assertEqual(self.files(), {})

    def test_a_silent_mirror_is_given_up(self):
        self.addCleanup(Stalls.let_go.set)
        Stalls.let_go.clear()
        self.out.mkdir(parents=True)
        failures = download.fetch_from_any([self.serve(Stalls)], self.out / NAMES[0], "0" * 64, 0.3, 1 << 20)
        self.assertIn("timed out", failures[0])
        self.assertEqual(self.files(), {})

    def test_killed_halfway_it_leaves_no_file_of_that_name_and_can_be_run_again(self):
        self.addCleanup(Stalls.let_go.set)
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number.name):
                Stalls.let_go.clear()
                Stalls.half_sent.clear()
                tool = subprocess.Popen([sys.executable, TOOL, "--out", self.out], stderr=subprocess.DEVNULL,
                                        env={**os.environ, "SLUICE_MNIST_MIRRORS": self.serve(Stalls)})
                self.assertTrue(Stalls.half_sent.wait(30))
                tool.send_signal(number)
                self.assertEqual(tool.wait(30), -9 if number == signal.SIGKILL else 128 + number)
                Stalls.let_go.set()
                self.assertNotIn(NAMES[0], self.files())
                if number == signal.SIGKILL:  # nothing can clean up after that
                    for path in self.out.glob("*.tmp"):
                        path.unlink()
                self.assertEqual(self.files(), {})
        self.assertEqual(self.run_tool(self.serve()), 0)
        self.assertEqual(self.files(), self.contents)

    def test_every_file_of_every_dataset_has_a_digest_of_its_own(self):
        digests = [digest for dataset in REAL_DATASETS.values() for digest in dataset.values()]
        self.assertEqual(len(set(digests)), 8)
        for digest in digests:
            self.assertRegex(digest, re.compile(r"\A[0-9a-f]{64}\Z"))

    def test_without_a_network_it_says_what_to_do(self):
        run = subprocess.run([sys.executable, TOOL, "--out", self.out], capture_output=True, text=True, check=False,
                             env={**os.environ, "SLUICE_MNIST_MIRRORS": "http://127.0.0.1:9/"}, timeout=60)
        self.assertEqual(run.returncode, 1)
        self.assertIn("Check the network", run.stderr)
        self.assertIn("http://127.0.0.1:9/" + NAMES[0], run.stderr)
        self.assertNotIn("Traceback", run.stderr)

    def test_wrong_arguments_exit_with_2(self):
        for arguments in (["--dataset", "cifar", "--out", "x"], [], ["--out", "x", "--timeout", "nan"]):
            run = subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 2, arguments)

    def test_a_file_in_the_way_of_the_folder_is_an_error(self):
        self.out.parent.mkdir()
        self.out.write_bytes(b"")
        self.assertEqual(self.run_tool(self.serve()), 1)


if __name__ == "__main__":
    unittest.main()
