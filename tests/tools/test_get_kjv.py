"""tools/get_kjv.py with a program `bible` of our own, which prints as Debian's does."""
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import get_kjv  # noqa: E402


class GetKjv(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.out = self.folder / "kjv"
        environment = mock.patch.dict(os.environ, {"PATH": f"{self.folder}:{os.environ['PATH']}"})
        environment.start()
        self.addCleanup(environment.stop)

    def bible(self, lines, code=0):
        (self.folder / "text").write_text("".join(line + "\n" for line in lines))
        program = self.folder / "bible"
        program.write_text(f"#!/bin/sh\ncat '{self.folder}/text'\necho 'no data' >&2\nexit {code}\n")
        program.chmod(0o755)

    def get(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = get_kjv.main([f"--out={self.out}", *arguments])
        return code, out.getvalue() + err.getvalue()

    def test_of_20_verses_18_are_for_training(self):
        self.bible(f"Ge{i // 30}:{i % 30} And God said, (word{i}): Let there be!" for i in range(get_kjv.VERSES))
        code, text = self.get()
        self.assertEqual(code, 0, text)
        sets = {name: (self.out / f"{name}.txt").read_text().splitlines() for name in get_kjv.SETS}
        self.assertEqual(sets["train"][0], "and god said , ( word0 ) : let there be !")
        self.assertEqual([line.split()[5] for line in sets["valid"][:2]], ["word18", "word38"])
        self.assertEqual([line.split()[5] for line in sets["test"][:2]], ["word19", "word39"])
        self.assertEqual(sum(map(len, sets.values())), get_kjv.VERSES)
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["test.txt", "train.txt", "valid.txt"])

    def test_what_is_no_bible_is_refused(self):
        for lines, code, why in ((["Ge1:1 In the beginning"], 0, "gave 1 verses, not 31102: no data"), ([], 3, "ended with 3")):
            self.bible(lines, code)
            found, text = self.get()
            self.assertEqual(found, 1)
            self.assertIn(why, text)
            self.assertFalse(self.out.exists())

    def test_a_program_that_is_missing_is_named(self):
        with mock.patch.dict(os.environ, {"PATH": str(self.folder)}):
            code, text = self.get()
        self.assertEqual(code, 1)
        self.assertIn("Debian's package bible-kjv has it", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
