"""tests/cluster/labs.py: what a machine cannot have is skipped and said, or fails where it is required."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = """
import sys
sys.path.insert(0, {folder!r})
import unittest
import labs

class OnHosts(unittest.TestCase):
    def test_hosts(self):
        with labs.or_skip(lambda: labs.lab.Hosts(1)):
            pass

    def test_alone(self):
        pass

unittest.main(verbosity=2)
"""


def run(*command, **options):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False, **options)


class Labs(unittest.TestCase):
    def outcome(self, *before, required=False):
        environment = {name: value for name, value in os.environ.items() if name != "SLUICE_LABS"}
        return run(*before, sys.executable, "-c", CASES.format(folder=str(ROOT / "tests" / "cluster")),
                   env={**environment, **({"SLUICE_LABS": "required"} if required else {})})

    def as_nobody(self):
        """How one runs without rights: an ordinary user, or root in a container, whose rights no command gives back."""
        if os.geteuid() != 0:
            return []
        return ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"]

    def test_what_cannot_be_had_is_skipped_and_says_why(self):
        done = self.outcome(*self.as_nobody())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"test_hosts .* skipped ['\"].*(needs? root|not permitted|is missing)")
        self.assertRegex(done.stderr, r"test_alone .* ok")

    def test_where_it_is_required_it_fails(self):
        done = self.outcome(*self.as_nobody(), required=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("(SLUICE_LABS=required)", done.stderr)


class Makefile(unittest.TestCase):
    """`make ci` requires what `make test` skips. Commands are shown what they would be run with, and not run."""
    def runs(self, target):
        """{what SLUICE_LABS is to the command}, of those that run tests."""
        with tempfile.TemporaryDirectory() as folder:
            shell = pathlib.Path(folder, "shell")
            shell.write_text('#!/bin/sh\necho "labs=${SLUICE_LABS-unset} $*"\n', encoding="ascii")
            shell.chmod(0o755)
            clean = {name: value for name, value in os.environ.items() if name != "SLUICE_LABS" and not name.startswith(("MAKE", "MFLAGS"))}
            done = run("make", f"SHELL={shell}", "JOBS=1", target, cwd=ROOT, env=clean)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line.split(" ")[0] for line in done.stdout.splitlines() if "ctest --test-dir" in line or "tools/fuzz.sh" in line or "check_tidy.py" in line]

    def test_make_test_leaves_out_what_cannot_be_had(self):
        self.assertEqual(self.runs("test"), ["labs=unset"])

    def test_make_ci_requires_it_of_everything(self):
        found = self.runs("ci")
        self.assertEqual(set(found), {"labs=required"})
        self.assertEqual(len(found), 5, "the release tests, clang-tidy, two sanitizers, the fuzzers")


if __name__ == "__main__":
    unittest.main(verbosity=2)
