"""mypy finds nothing in the package, whose types are strict and whose module has a stub."""
import pathlib
import subprocess
import sys
import unittest

import sluice

try:
    import mypy  # noqa: F401
except ImportError:
    raise unittest.SkipTest("mypy is not installed") from None

PACKAGE = pathlib.Path(sluice.__file__).parent
CONFIG = pathlib.Path(__file__).resolve().parents[2] / "pyproject.toml"

PROGRAM = """
import numpy
import sluice
kv = sluice.create("local")
kv.init(["a", 3], [numpy.zeros(2, numpy.float32), sluice.zeros(2)])
kv.set_optimizer(sluice.SGD(0.1))
kv.push("a", sluice.ones(2), divisor=2)
kv.barrier(timeout=1.0)
text: str = kv.agree("yes")
rank: int = kv.rank
shape: tuple[int, ...] = sluice.zeros((2, 3)).shape
"""


class Types(unittest.TestCase):
    def mypy(self, *arguments):
        return subprocess.run([sys.executable, "-m", "mypy", f"--config-file={CONFIG}", "--strict", "--ignore-missing-imports", "--cache-dir=/dev/null",
                               *arguments], cwd=PACKAGE.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)

    def test_the_package(self):
        self.assertTrue((PACKAGE / "_core.pyi").exists())
        found = self.mypy("-p", "sluice")
        self.assertEqual(found.returncode, 0, found.stdout)

    def test_programs_that_use_it(self):
        self.assertEqual(self.mypy("-c", PROGRAM).stdout.strip(), "Success: no issues found in 1 source file")
        for wrong in ("kv.push('a', sluice.ones(2), divizor=2)", "x: int = kv.agree('yes')", "sluice.SGD(momentum='high')"):
            self.assertIn("error", self.mypy("-c", PROGRAM + wrong).stdout, wrong)


if __name__ == "__main__":
    unittest.main()
