"""tools/check_tidy.py finds what it is there to find."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import check_commits  # noqa: E402
import check_tidy  # noqa: E402

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")


class CheckTidy(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name).resolve()
        shutil.copy(ROOT / ".clang-tidy", self.root)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return name

    def configure(self):
        files = [str(path) for path in (self.root / "src").rglob("*.cc")]
        self.write("build/compile_commands.json", json.dumps(
            [{"directory": str(self.root), "file": file, "command": f"c++ -std=c++20 -I{self.root}/src -c {file}"} for file in files]))

    def git(self, *arguments):
        subprocess.run([*GIT, *arguments], cwd=self.root, check=True, capture_output=True)

    def needs_tidy(self):
        if shutil.which(check_tidy.TIDY) is None and os.environ.get("SLUICE_LABS") != "required":
            self.skipTest(f"there is no {check_tidy.TIDY}")

    def test_faults_are_found_in_files_and_their_headers(self):
        self.needs_tidy()
        self.write("src/a.h", "struct A {\n  A(int a);\n};\n")
        name = self.write("src/a.cc", '#include "a.h"\nA::A(int /*a*/) {}\nbool F(int a) {\n  return a == a;\n}\n')
        good = self.write("src/b.cc", "int G() { return 1; }\n")
        self.configure()
        found = sorted(check_tidy.findings(self.root, [name, good]))
        self.assertEqual(len(found), 2)
        self.assertRegex(found[0], "^src/a.cc:4: both sides of operator are equivalent .misc-redundant-expression")
        self.assertRegex(found[1], "^src/a.h:2: single-argument constructors must be marked explicit")

    def test_a_precompiled_header_of_another_compiler_is_left_out(self):
        self.needs_tidy()
        name = self.write("src/a.cc", "int G() { return 1; }\n")
        self.write("build/cmake_pch.hxx", "")
        self.write("build/cmake_pch.hxx.gch", "not clang's")
        self.configure()
        path = self.root / "build/compile_commands.json"
        path.write_text(path.read_text().replace("-std=c++20", f"-std=c++20 -Winvalid-pch -include {self.root}/build/cmake_pch.hxx"))
        self.assertEqual(check_tidy.findings(self.root, [name]), [])

    def test_what_clang_cannot_compile_is_a_finding(self):
        self.needs_tidy()
        name = self.write("src/a.cc", "nonsense\n")
        self.configure()
        self.assertTrue(check_tidy.findings(self.root, [name]))

    def test_no_more_files_than_asked_for_are_looked_at(self):
        self.needs_tidy()
        names = [self.write("src/a.cc", "int G() { return 1; }\n"), self.write("src/b.cc", "nonsense\n")]
        self.configure()
        self.assertTrue(check_tidy.findings(self.root, names))
        with mock.patch("builtins.print") as said:
            self.assertEqual(check_tidy.findings(self.root, names, most=1), [])
        self.assertIn("1 of 2 files were left", said.call_args[0][0])

    def test_a_header_is_looked_at_through_a_file_that_includes_it(self):
        self.write("src/a.h", "")
        self.write("src/a.cc", '#include "a.h"\n')
        self.write("include/sluice/b.h", "")
        self.write("src/user.cc", '#include "sluice/b.h"\n')
        self.assertEqual(check_tidy.units(self.root, ["src/a.h", "src/a.cc", "include/sluice/b.h", "tests/a.cc", "src/gone.h", "README.md"]),
                         ["src/a.cc", "src/user.cc"])

    def test_changed_files_are_those_that_upstream_does_not_have(self):
        if shutil.which("git") is None:
            self.skipTest("there is no git")
        self.git("init", "-q")
        for name in ("src/old.cc", "src/new.cc", "src/edited.cc"):
            self.write(name, "")
            self.git("add", name)
            self.git("commit", "-q", "-m", name)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "The rest")
        self.assertEqual(set(check_commits.changed(self.root)), {".clang-tidy", "src/old.cc", "src/new.cc", "src/edited.cc"})
        with mock.patch.object(check_commits, "LAST", 2):
            self.assertEqual(check_commits.changed(self.root), [".clang-tidy", "src/edited.cc"])
        self.git("update-ref", "refs/remotes/origin/main", "HEAD~2")
        self.write("src/edited.cc", "int a;\n")
        self.write("src/untracked.cc", "")
        self.assertEqual(set(check_commits.changed(self.root)), {".clang-tidy", "src/edited.cc", "src/untracked.cc"})

    def test_without_clang_tidy_it_says_so_and_make_ci_fails(self):
        with mock.patch.object(check_tidy.shutil, "which", lambda name: None), mock.patch("builtins.print") as said:
            with mock.patch.dict(os.environ, {"SLUICE_LABS": ""}):
                self.assertEqual(check_tidy.findings(self.root, []), [])
            with mock.patch.dict(os.environ, {"SLUICE_LABS": "required"}):
                self.assertIn("is not run", check_tidy.findings(self.root, [])[0])
        self.assertIn("is not run", said.call_args[0][0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
