#!/usr/bin/env python3
"""Holds what `git log --oneline` and a terminal can show: a commit's subject of at most 72 characters, lines of its body of at most 100.

Usage: tools/check_commits.py [ROOT]      exit code 1 and a line for each finding

It looks at what origin/main does not have yet, or else at the last 50 commits; commits from before the rule are left alone. A folder that
is no git repository (an archive of the sources) is left out with a line that says so.
"""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out

import checks  # noqa: E402

LONGEST_SUBJECT = 72
LONGEST_LINE = 100  # one word may be longer: an address
NEWEST = 50
RULE_SINCE = "2026-11-27T13:00:00+00:00"  # by the author's date, which a rebase keeps
UPSTREAM = "origin/main"
LAST = 20  # commits whose files are looked at where none differs from upstream


def git(root, *arguments):
    """What git prints; None if it fails."""
    try:
        ran = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError:
        return None
    return ran.stdout if ran.returncode == 0 else None


def changed(root):
    """Files that differ from upstream, the last changed ones first; if none does, those of the last commits."""
    base = (git(root, "merge-base", UPSTREAM, "HEAD") or "").strip()
    differs = [("ls-files", "--others", "--exclude-standard"), ("diff", "--name-only", "HEAD")]
    if base:
        differs.append(("log", f"{base}..HEAD", "--name-only", "--format="))
    last = [("log", f"--max-count={LAST}", "--name-only", "--format=")]
    for commands in (differs, last):
        if names := [name for command in commands for name in (git(root, *command) or "").split("\n") if name]:
            break
    return list(dict.fromkeys(names))


def commits(root):
    """(short hash, message) of each commit to look at, newest first."""
    new = git(root, "rev-list", f"{UPSTREAM}..HEAD")
    which = [f"{UPSTREAM}..HEAD"] if new else [f"--max-count={NEWEST}"]
    log = git(root, "log", *which, "--no-merges", "--format=%h%x00%at%x00%B%x01") or ""
    since = int(git(root, "rev-parse", f"--since={RULE_SINCE}").strip().removeprefix("--max-age="))
    for one in log.split("\x01")[:-1]:
        name, authored, message = one.lstrip("\n").split("\0")
        if int(authored) >= since:
            yield name, message


def faults(message):
    subject, *body = message.rstrip("\n").split("\n")
    if len(subject) > LONGEST_SUBJECT:
        yield f"the subject has {len(subject)} characters; at most {LONGEST_SUBJECT}: the reason stands in the body"
    if body and body[0].strip():
        yield "an empty line must follow the subject: git takes the second line as part of it"
    for line in body:
        if len(line) > LONGEST_LINE and " " in line.strip():
            yield f"a line of the body has {len(line)} characters; at most {LONGEST_LINE}: {line[:40]}..."


def findings(root):
    inside = git(root, "rev-parse", "--show-toplevel")
    if inside is None or pathlib.Path(inside.strip()).resolve() != root:
        print(f"commits are not looked at: {root} is no git repository, or git is not there")
        return []
    return [f"{name}: {fault} ('git commit --amend' or 'git rebase -i' changes it)" for name, message in commits(root) for fault in faults(message)]


def main(arguments):
    found = findings(checks.root_of(__doc__, arguments))
    for line in found:
        print(line)
    print(f"check_commits: {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
