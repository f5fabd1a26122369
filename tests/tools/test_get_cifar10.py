"""tools/get_cifar10.py against a server of our own: no network is needed."""
import hashlib
import io
import os
import pathlib
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "get_cifar10.py"
sys.path.insert(0, str(TOOL.parent))
import get_cifar10  # noqa: E402
from mirror import Mirrors, Quiet, Stalls  # noqa: E402

REAL_FILES, REAL_ARCHIVE = dict(get_cifar10.FILES), get_cifar10.ARCHIVE_SHA256
NAMES = list(REAL_FILES)


def archive_of(files):
    """name -> bytes, or None for a folder of that name."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, contents in files.items():
            member = tarfile.TarInfo(name)
            if contents is None:
                member.type = tarfile.DIRTYPE
            member.size = len(contents or b"")
            archive.addfile(member, io.BytesIO(contents or b""))
    return packed.getvalue()


class GetCifar10(Mirrors, unittest.TestCase):
    variable, main = "SLUICE_CIFAR10_MIRRORS", staticmethod(get_cifar10.main)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name) / "new" / "out"
        self.source = pathlib.Path(folder.name) / "source"
        self.source.mkdir()
        self.contents = {name: f"contents of {name}".encode() * 1000 for name in NAMES}
        for name, contents in self.contents.items():
            get_cifar10.FILES[name] = hashlib.sha256(contents).hexdigest()
        self.addCleanup(get_cifar10.FILES.update, REAL_FILES)
        self.addCleanup(setattr, get_cifar10, "ARCHIVE_SHA256", REAL_ARCHIVE)
        self.publish(self.sound())
        Quiet.asked = 0

    def sound(self):
        return {"cifar-10-batches-bin/readme.html": b"hello", "../escaped": b"never written",
                **{f"cifar-10-batches-bin/{name}": contents for name, contents in self.contents.items()}}

    def publish(self, files):
        self.publish_bytes(archive_of(files))

    def publish_bytes(self, packed):
        (self.source / get_cifar10.ARCHIVE).write_bytes(packed)
        get_cifar10.ARCHIVE_SHA256 = hashlib.sha256(packed).hexdigest()

    def test_fetches_and_unpacks_the_images_alone(self):
        self.assertEqual(self.run_tool(self.serve()), 0)
        self.assertEqual(self.files(), self.contents)
        self.assertFalse((self.out.parent / "escaped").exists())

    def test_asks_nobody_when_all_is_there(self):
        mirror = self.serve()
        self.assertEqual(self.run_tool(mirror), 0)
        self.assertEqual(self.run_tool(mirror), 0)
        self.assertEqual(Quiet.asked, 1)
        (self.out / NAMES[3]).write_bytes(b"damaged")
        self.assertEqual(self.run_tool(mirror), 0)
        self.assertEqual(Quiet.asked, 2)
        self.assertEqual(self.files(), self.contents)

    def test_takes_an_archive_that_was_put_there(self):
        self.out.mkdir(parents=True)
        (self.out / get_cifar10.ARCHIVE).write_bytes((self.source / get_cifar10.ARCHIVE).read_bytes())
        self.assertEqual(self.run_tool("http://127.0.0.1:9/"), 0)
        self.assertEqual(self.files(), self.contents)

    def test_goes_on_to_the_next_mirror(self):
        self.assertEqual(self.run_tool("http://127.0.0.1:9/", self.serve()), 0)
        self.assertEqual(self.files(), self.contents)

    def test_a_wrong_checksum_fails_and_leaves_nothing(self):
        (self.source / get_cifar10.ARCHIVE).write_bytes(b"not what was published")
        self.assertEqual(self.run_tool(self.serve()), 1)
        self.assertEqual(self.files(), {})

    def test_an_archive_of_something_else_fails_and_leaves_no_part(self):
        first = f"cifar-10-batches-bin/{NAMES[0]}"
        for name, packed in (("lacks one", archive_of({k: v for k, v in self.sound().items() if k != first})),
                             ("has a folder", archive_of({**self.sound(), first: None})),
                             ("has another", archive_of({**self.sound(), first: b"another"})),
                             ("is truncated", archive_of(self.sound())[:-500]),
                             ("is no archive", b"plain text")):
            with self.subTest(name):
                self.publish_bytes(packed)
                self.assertEqual(self.run_tool(self.serve()), 1)
                self.assertNotIn(NAMES[0], {} if name == "is truncated" else self.files())
                self.assertFalse([path for path in self.out.iterdir() if path.suffix == ".tmp"])

    def test_killed_halfway_it_leaves_nothing_and_can_be_run_again(self):
        self.addCleanup(Stalls.let_go.set)
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number.name):
                Stalls.let_go.clear()
                Stalls.half_sent.clear()
                tool = subprocess.Popen([sys.executable, TOOL, "--out", self.out], stderr=subprocess.DEVNULL,
                                        env={**os.environ, "SLUICE_CIFAR10_MIRRORS": self.serve(Stalls)})
                self.assertTrue(Stalls.half_sent.wait(30))
                tool.send_signal(number)
                self.assertEqual(tool.wait(30), 128 + number)
                Stalls.let_go.set()
                self.assertEqual(self.files(), {})
        self.assertEqual(self.run_tool(self.serve()), 0)
        self.assertEqual(self.files(), self.contents)

    def test_every_file_has_a_digest_of_its_own(self):
        digests = [REAL_ARCHIVE, *REAL_FILES.values()]
        self.assertEqual(len(set(digests)), 7)
        for digest in digests:
            self.assertRegex(digest, re.compile(r"\A[0-9a-f]{64}\Z"))

    def test_without_a_network_it_says_what_to_do(self):
        run = subprocess.run([sys.executable, TOOL, "--out", self.out], capture_output=True, text=True, check=False,
                             env={**os.environ, "SLUICE_CIFAR10_MIRRORS": "http://127.0.0.1:9/"}, timeout=60)
        self.assertEqual(run.returncode, 1)
        self.assertIn("Check the network", run.stderr)
        self.assertIn("http://127.0.0.1:9/" + get_cifar10.ARCHIVE, run.stderr)
        self.assertNotIn("Traceback", run.stderr)

    def test_wrong_arguments_exit_with_2(self):
        for arguments in (["--dataset", "cifar10", "--out", "x"], [], ["--out", "x", "--timeout", "nan"]):
            run = subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 2, arguments)

    def test_a_file_in_the_way_of_the_folder_is_an_error(self):
        self.out.parent.mkdir()
        self.out.write_bytes(b"")
        self.assertEqual(self.run_tool(self.serve()), 1)


if __name__ == "__main__":
    unittest.main()
