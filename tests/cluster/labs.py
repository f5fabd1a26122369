"""What a machine may not have: root, namespaces, sshd, batch systems. A test without them is skipped, and says why, which
tools/test_report.py repeats; with SLUICE_LABS=required (`make ci`) it fails."""
import contextlib
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import lab  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Mounts an empty /tmp and /dev/shm over those that are there, with the folders $2 and $3 in their places, and becomes the rest.
FRESH = """set -e
fresh=$1; shift
mount -t tmpfs sluice "$fresh"
for kept in "$1" "$2"; do
  case $kept in /tmp/*) mkdir -p "$fresh${kept#/tmp}"; mount --rbind "$kept" "$fresh${kept#/tmp}";; esac
done
shift 2
mount --move "$fresh" /tmp
mount -t tmpfs sluice /dev/shm
exec "$@"
"""
MOVED = "LABS_HAVE_A_TMP"


def can_mount():
    return os.geteuid() == 0 and subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "sluice", "/dev/shm"], capture_output=True, check=False).returncode == 0


def fresh(scratch, *kept):
    """A command that runs the rest with an empty /tmp and /dev/shm, but for two folders that may lie there. `scratch`: an empty folder."""
    return ["unshare", "-m", "sh", "-c", FRESH, "sh", str(scratch), *map(str, kept)]


def move_to_a_tmp_of_ones_own(bin_dir):
    """Starts this program again with a /tmp and a /dev/shm to which no other test writes: whatever is left there is then its own. Where
    that cannot be had, it goes on as it is."""
    if os.environ.pop(MOVED, None) is None and can_mount():
        command = [*fresh("/mnt", ROOT, bin_dir), sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]]
        os.execvpe(command[0], command, {**os.environ, MOVED: "1"})


def is_required():
    return os.environ.get("SLUICE_LABS") == "required"


def missing(why):
    """Ends the test."""
    if is_required():
        raise AssertionError(f"{why} (SLUICE_LABS=required)")
    raise unittest.SkipTest(why)


@contextlib.contextmanager
def or_skip(make):
    """The context that make() returns, entered, unless this machine cannot have it."""
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(make())
        except lab.Unavailable as why:
            missing(str(why))
        yield made
