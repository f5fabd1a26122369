"""tools/test_report.py sums up files as ctest writes them, and names one that it cannot read."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
JUNIT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="(empty)" tests="{count}" failures="0" disabled="0" skipped="0" hostname="" time="36" timestamp="2026-11-26T10:24:27">
{cases}
</testsuite>"""
CASE = """<testcase name="{name}" classname="x" time="{seconds}" status="{status}">{more}<system-out>{output}</system-out></testcase>"""
SKIPPED, MISSING = '<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>', '<skipped message="Unable to find executable"/>'
LONG = "Parameters/AnyStore." + "PushesAndPullsOfManyKeysAtOnceWithEveryTransport/" * 4 + "dist_sync_on_7"


def junit(cases):
    text = "\n".join(CASE.format(**{"output": "", "status": "run", "seconds": 0.1, "more": "", **case}) for case in cases)
    return JUNIT.format(count=len(cases), cases=text)


def skips(reason):
    """What Python's unittest writes of a skipped test."""
    return f"test_a (__main__.A.test_a) ... skipped {reason!r}\n"


class TestReport(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def file(self, text, name="tests.xml"):
        (self.folder / name).write_text(text, encoding="utf-8")
        return self.folder / name

    def run_tool(self, *arguments):
        return subprocess.run([sys.executable, ROOT / "tools" / "test_report.py", *arguments], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)

    def report(self, *files):
        """The code and the text for files with these cases."""
        done = self.run_tool(*(self.file(junit(cases), f"{i}.xml") for i, cases in enumerate(files)))
        self.assertEqual(done.stderr, "")
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 120)
        return done.returncode, done.stdout

    def assert_refuses(self, path, *whys):
        done = self.run_tool(self.file(junit([{"name": "a"}]), "good.xml"), path)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertTrue(done.stderr.startswith(f"test_report.py: {path}: "), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for why in whys:
            self.assertIn(why, done.stderr)

    def test_the_ten_slowest_and_the_count_at_the_end(self):
        code, said = self.report([*({"name": f"t{i}", "seconds": i / 2} for i in range(30)), {"name": LONG, "seconds": 77.25}])
        self.assertEqual(code, 0)
        lines = said.splitlines()
        self.assertEqual(lines[0], "The 10 slowest of 31 tests:")
        self.assertTrue(lines[1].startswith("    77.2 s  Parameters/AnyStore.Push"), lines[1])
        self.assertTrue(lines[1].endswith("dist_sync_on_7"), lines[1])
        self.assertEqual(lines[2:11], [f"{i / 2:8.1f} s  t{i}" for i in range(29, 20, -1)])
        self.assertEqual(lines[11:], ["100% tests passed, 0 tests failed out of 31"])

    def test_fewer_than_ten(self):
        code, said = self.report([{"name": "fast", "seconds": 0.04}, {"name": "slow", "seconds": 2}])
        self.assertEqual((code, said), (0, "The 2 slowest of 2 tests:\n     2.0 s  slow\n     0.0 s  fast\n100% tests passed, 0 tests failed out of 2\n"))

    def test_several_files_are_one_sum(self):
        code, said = self.report([{"name": f"a{i}", "seconds": 2 * i} for i in range(8)],
                                 [{"name": f"b{i}", "seconds": 2 * i + 1, "status": "fail" if i == 5 else "run"} for i in range(8)])
        self.assertEqual(code, 1)
        lines = said.splitlines()
        self.assertEqual(lines[0], "The 10 slowest of 16 tests:")
        self.assertEqual([line.split()[-1] for line in lines[1:11]], ["b7", "a7", "b6", "a6", "b5", "a5", "b4", "a4", "b3", "a3"])
        self.assertEqual(lines[11:], ["Failed:", "  b5", "93% tests passed, 1 tests failed out of 16"])

    def test_what_was_skipped_and_why(self):
        python = "test_a (__main__.A.test_a)\nSays more. ... skipped 'network namespaces need root'\ntest_b ... ok\n\nOK (skipped=1)\n"
        google = "[ RUN      ] Bfloat16.Multiplies\nbfloat16_test.cc:5: Skipped\nthis processor has no AVX-512\n\n[  SKIPPED ] Bfloat16.Multiplies (0 ms)\n"
        code, said = self.report([{"name": "cluster_ssh", "output": python}, {"name": "cluster_launchers", "output": python}, {"name": "t"},
                                  {"name": "Bfloat16.Multiplies", "output": google, "status": "notrun", "more": SKIPPED},
                                  {"name": "Other.Case", "status": "notrun", "more": SKIPPED}])
        self.assertEqual(code, 0, said)
        self.assertIn("\nSkipped, or parts of them:\n  cluster_ssh and 1 more: network namespaces need root\n  Bfloat16.Multiplies: this processor has no AVX-512\n  Other.Case: it does not say why\n", said)
        self.assertTrue(said.endswith("\n100% tests passed, 0 tests failed out of 5\n"), said)

    def test_a_reason_is_one_line_for_all_files_and_parts(self):
        _, said = self.report([{"name": "a", "output": skips("no card") + skips("no sshd") + skips("no card")}], [{"name": "b", "output": skips("no card")}, {"name": "c", "output": skips("it isn't there")}])
        self.assertIn("\nSkipped, or parts of them:\n  a and 1 more: no card\n  a: no sshd\n  c: it isn't there\n100%", said)

    def test_long_lines_keep_their_ends(self):
        code, said = self.report([{"name": LONG, "status": "fail", "output": skips("there is no " + "very " * 40 + "long reason")}])
        self.assertEqual(code, 1)
        for line, start, end in zip(said.splitlines()[1:], ("     0.1 s  Parameters", "Skipped", "  Parameters", "Failed", "  Parameters"),
                                    ("dist_sync_on_7", ":", "long reason", ":", "dist_sync_on_7")):
            self.assertTrue(line.startswith(start) and line.endswith(end), line)

    def test_failures(self):
        code, said = self.report([{"name": "a"}, {"name": "b", "status": "fail", "output": "test_a ... skipped 'no namespaces'"},
                                  {"name": "c", "status": "notrun", "more": MISSING}])
        self.assertEqual(code, 1)
        self.assertTrue(said.endswith("Failed:\n  b\n  c\n33% tests passed, 2 tests failed out of 3\n"), said)

    def test_no_tests(self):
        code, said = self.report([])
        self.assertEqual(code, 1)
        self.assertTrue(said.endswith("0 tests failed out of 0\n"), said)

    def test_a_file_that_is_not_there(self):
        self.assert_refuses(self.folder / "none.xml", "[Errno 2] No such file")
        self.assert_refuses(self.folder, "Is a directory")

    def test_a_broken_file(self):
        whole = junit([{"name": "a"}, {"name": "b"}])
        self.assert_refuses(self.file(""), "no element found")
        self.assert_refuses(self.file(whole[:-40]), "line 4")
        self.assert_refuses(self.file("three tests passed\n"), "syntax error")
        self.assert_refuses(self.file(whole.replace("UTF-8", "none-such")), "none-such")
        self.assert_refuses(self.file(junit([{"name": "a", "seconds": "1,5"}])), "1,5")
        self.assert_refuses(self.file("<html><body/></html>"), "begins with <html>")
        (self.folder / "binary.xml").write_bytes(whole.encode().replace(b'name="a"', b'name="\xff"'))
        self.assert_refuses(self.folder / "binary.xml", "line 3")

    def test_no_arguments(self):
        done = self.run_tool()
        self.assertEqual(done.returncode, 2)
        self.assertIn("FILE", done.stderr.splitlines()[-1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
