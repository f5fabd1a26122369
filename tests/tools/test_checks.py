"""Every tools/check_*.py says how it is called, and an argument that it cannot use is named."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECKS = sorted((ROOT / "tools").glob("check_*.py"))


def run(check, *arguments):
    return subprocess.run([sys.executable, "-P", check, *arguments] if sys.version_info >= (3, 11) else [sys.executable, check, *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)


class Checks(unittest.TestCase):
    def test_help(self):
        self.assertGreater(len(CHECKS), 7)
        for check in CHECKS:
            with self.subTest(check=check.name):
                done = run(check, "--help")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertRegex(done.stdout, rf"^usage: \S*{check.name} ")
                self.assertIn("show this help message", done.stdout)

    def test_what_is_no_argument_is_named(self):
        for check in CHECKS:
            for argument in ("/no/such/folder", "--no-such-flag"):
                with self.subTest(check=check.name, argument=argument):
                    done = run(check, argument)
                    self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                    self.assertRegex(done.stderr.splitlines()[-1], f"^{check.name}: error: .*{argument}")

    def test_a_file_is_no_folder(self):
        for check in CHECKS:
            if check.name != "check_tidy.py":  # takes files
                with self.subTest(check=check.name):
                    done = run(check, str(ROOT / "README.md"))
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn(f"there is no folder '{ROOT / 'README.md'}'", done.stderr)

    def test_a_folder_without_layers(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(ROOT / "tools" / "check_layers.py", folder)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertTrue(done.stderr.endswith(f"{pathlib.Path(folder).resolve()} has no ARCHITECTURE.md\n"), done.stderr)

    def test_what_two_of_them_print(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "src").mkdir()
            (pathlib.Path(folder) / "src" / "a.h").write_text("class A {\n  void F();\n  void G();\n};\n")
            done = run(ROOT / "tools" / "check_classes.py", "--largest", folder)
        self.assertEqual((done.returncode, done.stdout), (0, "   2 A (src/a.h:1)\n"), done.stderr)
        picture = run(ROOT / "tools" / "check_layers.py", "--picture")
        self.assertEqual(picture.returncode, 0, picture.stderr)
        self.assertIn(f"```\n{picture.stdout}```", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
