"""tools/check_commits.py finds what it is there to find."""
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

BEFORE_THE_RULE = "2026-11-01T00:00:00+00:00"
WHO = {f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


class CheckCommits(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name).resolve()

    def git(self, *arguments, date=check_commits.RULE_SINCE):
        environment = {**os.environ, **WHO, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, "GIT_CONFIG_GLOBAL": os.devnull}
        subprocess.run(["git", "-C", str(self.root), *arguments], env=environment, check=True, capture_output=True)

    def commit(self, message, **how):
        if not (self.root / ".git").exists():
            self.git("init", "-q", "-b", "main")
        self.git("commit", "--allow-empty", "--cleanup=verbatim", "-m", message, **how)

    def found(self):
        return check_commits.findings(self.root)

    def needs_git(self):
        if shutil.which("git") is None:
            self.skipTest("there is no git")

    def test_the_project_is_clean(self):
        self.assertEqual(check_commits.findings(ROOT), [])

    def test_a_long_subject_is_found(self):
        self.needs_git()
        self.commit("s" * 72)
        self.assertEqual(self.found(), [])
        self.commit("s" * 73)
        self.assertEqual(len(self.found()), 1)
        self.assertRegex(self.found()[0], "^[0-9a-f]+: the subject has 73 characters; at most 72")

    def test_bodies_are_looked_at(self):
        self.needs_git()
        self.commit("Fits\n\n" + "a " * 50 + "\n" + "https://example.com/" + "x" * 100 + "\n")
        self.assertEqual(self.found(), [])
        self.commit("Fits\nnot empty\n\n" + "a " * 51 + "\n")
        self.assertEqual(len(self.found()), 2)
        self.assertIn("an empty line must follow the subject", self.found()[0])
        self.assertIn("a line of the body has 102 characters; at most 100: a a", self.found()[1])

    def test_commits_from_before_the_rule_and_merges_are_left_alone(self):
        self.needs_git()
        self.commit("s" * 73, date=BEFORE_THE_RULE)
        self.git("checkout", "-q", "-b", "other")
        self.commit("Other")
        self.git("checkout", "-q", "main")
        self.commit("Main")
        self.git("merge", "--no-ff", "-m", "m" * 73, "other")
        self.assertEqual(self.found(), [])

    def test_what_upstream_has_is_left_alone_and_without_upstream_the_newest_are_looked_at(self):
        self.needs_git()
        self.commit("s" * 73)
        self.commit("Fits")
        self.assertEqual(len(self.found()), 1)
        self.git("update-ref", "refs/remotes/origin/main", "HEAD~")
        self.assertEqual(self.found(), [])
        self.git("update-ref", "-d", "refs/remotes/origin/main")
        with mock.patch.object(check_commits, "NEWEST", 1):
            self.assertEqual(self.found(), [])

    def test_a_folder_without_git_says_so_and_passes(self):
        with mock.patch("builtins.print") as said:
            self.assertEqual(self.found(), [])
        self.assertIn("commits are not looked at", said.call_args[0][0])
        with mock.patch.object(check_commits.subprocess, "run", side_effect=FileNotFoundError), mock.patch("builtins.print"):
            self.assertEqual(self.found(), [])

    def test_a_repository_without_commits_passes(self):
        self.needs_git()
        self.git("init", "-q")
        self.assertEqual(self.found(), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
