"""tests/cluster/labs.py and tools/test_report.py: what a machine cannot have is skipped and said, or fails where it is required."""
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
JUNIT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="(empty)" tests="{count}" failures="0" disabled="0" skipped="0" hostname="" time="36" timestamp="2026-11-26T10:24:27">
{cases}
</testsuite>"""
CASE = """<testcase name="{name}" classname="x" time="{seconds}" status="{status}">{more}<system-out>{output}</system-out></testcase>"""
SKIPPED, MISSING = '<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>', '<skipped message="Unable to find executable"/>'
LONG = "Parameters/AnyStore." + "PushesAndPullsOfManyKeysAtOnceWithEveryTransport/" * 4 + "dist_sync_on_7"


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


class Report(unittest.TestCase):
    def report(self, *cases):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            text = "\n".join(CASE.format(**{"output": "", "status": "run", "seconds": 0.1, "more": "", **case}) for case in cases)
            file.write(JUNIT.format(count=len(cases), cases=text))
            file.flush()
            done = run(sys.executable, ROOT / "tools" / "test_report.py", file.name)
        self.assertEqual(done.stderr, "")
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 120)
        return done.returncode, done.stdout

    def test_the_ten_slowest_and_the_count_at_the_end(self):
        code, said = self.report(*({"name": f"t{i}", "seconds": i / 2} for i in range(30)), {"name": LONG, "seconds": 77.25})
        self.assertEqual(code, 0)
        lines = said.splitlines()
        self.assertEqual(lines[0], "The 10 slowest of 31 tests:")
        self.assertTrue(lines[1].startswith("    77.2 s  Parameters/AnyStore.Push"), lines[1])
        self.assertTrue(lines[1].endswith("dist_sync_on_7"), lines[1])
        self.assertEqual(lines[2:11], [f"{i / 2:8.1f} s  t{i}" for i in range(29, 20, -1)])
        self.assertEqual(lines[11:], ["100% tests passed, 0 tests failed out of 31"])

    def test_what_was_skipped_and_why(self):
        python = "test_a (__main__.A.test_a)\nSays more. ... skipped 'network namespaces need root'\ntest_b ... ok\n\nOK (skipped=1)\n"
        google = "[ RUN      ] Bfloat16.Multiplies\nbfloat16_test.cc:5: Skipped\nthis processor has no AVX-512\n\n[  SKIPPED ] Bfloat16.Multiplies (0 ms)\n"
        code, said = self.report({"name": "cluster_ssh", "output": python}, {"name": "cluster_launchers", "output": python}, {"name": "t"},
                                 {"name": "Bfloat16.Multiplies", "output": google, "status": "notrun", "more": SKIPPED},
                                 {"name": "Other.Case", "status": "notrun", "more": SKIPPED})
        self.assertEqual(code, 0, said)
        self.assertIn("\nSkipped, or parts of them:\n  cluster_ssh and 1 more: network namespaces need root\n  Bfloat16.Multiplies: this processor has no AVX-512\n  Other.Case: it does not say why\n", said)
        self.assertTrue(said.endswith("\n100% tests passed, 0 tests failed out of 5\n"), said)

    def test_failures(self):
        code, said = self.report({"name": "a"}, {"name": "b", "status": "fail", "output": "test_a ... skipped 'no namespaces'"}, {"name": "c", "status": "notrun", "more": MISSING})
        self.assertEqual(code, 1)
        self.assertTrue(said.endswith("Failed:\n  b\n  c\n33% tests passed, 2 tests failed out of 3\n"), said)

    def test_no_file_and_no_tests(self):
        done = run(sys.executable, ROOT / "tools" / "test_report.py", "/no/such/file.xml")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/no/such/file.xml: [Errno 2] No such file", done.stderr)
        self.assertEqual(self.report()[0], 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
