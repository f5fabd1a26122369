"""The tutorials of docs/tutorials run, in their quick form, and what they claim holds: they assert it."""
import os
import pathlib
import subprocess
import sys
import unittest

TUTORIALS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "tutorials"


def needs_torch(path):
    return "import torch" in path.read_text(encoding="utf-8")


class Tutorials(unittest.TestCase):
    def test_they_run(self):
        paths = sorted(TUTORIALS.glob("*.py"))
        self.assertGreaterEqual(len(paths), 4)
        for path in paths:
            with self.subTest(path.name):
                try:
                    import torch  # noqa: F401
                except ImportError:
                    if needs_torch(path):
                        continue
                done = subprocess.run([sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
                                      env={**os.environ, "SLUICE_TUTORIAL": "quick"}, check=False)
                self.assertEqual(done.returncode, 0, done.stdout)
                print(f"{path.name}:\n{done.stdout}")


if __name__ == "__main__":
    unittest.main()
