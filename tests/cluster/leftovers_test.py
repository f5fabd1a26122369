"""kill -9 of any process of a job leaves /dev/shm, /tmp, the process table, sockets and shared mappings as they were.

With root the job has a /tmp and a /dev/shm of its own, in which every name that is left is the job's. Without, it has a TMPDIR of
its own, and of /dev/shm, where other programs of the machine may write meanwhile, names with "sluice" count.

Usage: leftovers_test.py BIN_DIR
"""
import contextlib
import ctypes
import os
import pathlib
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import labs  # noqa: E402
from cluster import unwrapped  # noqa: E402
from launch_test import LAUNCH, ROOT  # noqa: E402
from network_test import unix_sockets  # noqa: E402

BIN = None
PATIENCE = 60
MARK = "LEFTOVERS_TEST"
PR_SET_CHILD_SUBREAPER = 36


def sluice_names(folder):
    return {name for name in os.listdir(folder) if "sluice" in name}


def read(path):
    """Empty where the process has ended, or is not ours to look into."""
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:
        return b""


def started(pid):
    """When: with the pid, who a process is. None: there is none, not even a zombie."""
    stat = read(f"/proc/{pid}/stat")
    return stat.rsplit(b")", 1)[1].split()[19] if stat else None


def pids():
    return [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()]


def environment(pid):
    return dict(part.split(b"=", 1) for part in read(f"/proc/{pid}/environ").split(b"\0") if b"=" in part)


def links(pid):
    """Where its descriptors lead."""
    found = set()
    with contextlib.suppress(OSError):
        for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(os.readlink(descriptor))
    return found


def memory_of(pid):
    """Inodes of Sluice's nameless memory that it has mapped."""
    return {line.split()[4] for line in read(f"/proc/{pid}/maps").splitlines() if b"/memfd:sluice" in line}


class Job:
    """A launched job that trains, and all that could be left of it."""

    def __init__(self, transport, scratch, private):
        """`scratch`: an empty folder. `private`: with a /tmp and /dev/shm of its own."""
        self.mark = secrets.token_hex(8)
        command = [*LAUNCH, "-n", "2", "-s", "2", "--env", f"SLUICE_TRANSPORT={transport}", str(BIN / "train_mnist"), "--network=mlp",
                   "--kv-store=dist_sync", "--num-epochs=1000", "--disp-batches=5", "--num-examples=2000"]
        if private:
            command = [*labs.fresh(scratch, ROOT, BIN), *command]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DMLC_", "PS_", "SLUICE_"))}
        temporary = "/tmp" if private else scratch
        kept["TMPDIR"] = temporary
        self.before = {temporary: set(), "/dev/shm": set() if private else sluice_names("/dev/shm")}  # by folder
        self.popen = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=kept | {MARK: self.mark})
        self.said, self.folders = "", {}
        for line in self.popen.stdout:
            self.said += line
            if "batch" in line:
                break
        else:
            raise AssertionError(f"the job ended before it trained:\n{self.said}")
        if private:  # an open folder outlives the last process that sees it
            self.folders = {folder: os.open(f"/proc/{self.popen.pid}/root{folder}", os.O_RDONLY) for folder in self.before}
            self.before["/tmp"] = {kept.parts[2] for kept in (ROOT, BIN) if kept.parts[1] == "tmp"}
        self._look()

    def _look(self):
        """What it has while it runs."""
        self.roles, self.processes, self.memory, held = {}, {}, set(), set()
        for pid in pids():
            place = environment(pid)
            if place.get(MARK.encode()) != self.mark.encode():
                continue
            self.processes[pid] = started(pid)
            role = place.get(b"DMLC_ROLE", b"").decode()
            name = f"{role} {place[b'DMLC_RANK'].decode()}" if b"DMLC_RANK" in place else role
            self.roles[name or ("launch.py" if pid == self.popen.pid else "runner")] = pid
            self.memory |= memory_of(pid)
            held |= links(pid)
        self.sockets = {name for name, inode in unix_sockets() if f"socket:[{inode}]" in held and name.startswith("@")}

    def kill(self, victim):
        os.kill(self.roles[victim], signal.SIGKILL)
        self.said += self.popen.stdout.read()  # until nobody of the job holds it
        self.popen.wait(PATIENCE)

    def close(self):
        for pid, start in getattr(self, "processes", {}).items():
            if started(pid) == start:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        self.popen.kill()
        self.popen.wait()
        self.popen.stdout.close()
        for descriptor in self.folders.values():
            os.close(descriptor)

    # --- What is left ---

    def processes_left(self):
        """Also zombies, but those that have come to this process, which takes them; and whoever has its environment."""
        for pid in self.processes:
            if pid != self.popen.pid:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        return ({pid for pid, start in self.processes.items() if started(pid) == start}
                | {pid for pid in pids() if environment(pid).get(MARK.encode()) == self.mark.encode()})

    def sockets_left(self):
        return self.sockets & {name for name, _ in unix_sockets()}

    def memory_left(self):
        return self.memory & set().union(*(memory_of(pid) for pid in pids()))

    def names_left(self):
        """Less the logs of a job that failed, whose place launch.py has told: they are kept (docs/launching.md)."""
        left = {f"{folder}/{name}" for folder, before in self.before.items() for name in self._names(folder) - before}
        return left - set(re.findall(r"logs (?:are )?in (\S+)", unwrapped(self.said)))

    def _names(self, folder):
        if folder in self.folders:
            return set(os.listdir(self.folders[folder]))
        return sluice_names(folder) if folder == "/dev/shm" else set(os.listdir(folder))


class Leftovers(unittest.TestCase):
    VICTIMS = ("scheduler", "server 0", "worker 1", "launch.py", "runner")

    @classmethod
    def setUpClass(cls):
        # Orphans come here, not to an init that may never take their exit codes.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, *map(ctypes.c_ulong, (1, 0, 0, 0)))
        cls.private = labs.can_mount()
        if not cls.private and labs.is_required():
            labs.missing("a /tmp of the job's own needs root and mount namespaces")
        if not cls.private:
            print("no /tmp and /dev/shm of the job's own here: needs root", file=sys.stderr)

    def assert_empties(self, look, what):
        end = time.monotonic() + PATIENCE
        while left := look():
            self.assertLess(time.monotonic(), end, f"{what} left: {left}")
            time.sleep(0.02)

    def check(self, transport, victim):
        with tempfile.TemporaryDirectory() as scratch, contextlib.closing(Job(transport, scratch, self.private)) as job:
            self.assertEqual(set(job.roles), {"launch.py", "runner", "scheduler", "server 0", "server 1", "worker 0", "worker 1"})
            self.assertEqual(len(job.memory) > 0, transport == "shm")
            self.assertGreaterEqual(len(job.sockets), 0 if transport == "tcp" else 2)
            job.kill(victim)
            self.assertNotEqual(job.popen.returncode, 0, job.said)
            self.assert_empties(job.processes_left, "processes")
            self.assert_empties(job.sockets_left, "sockets")
            self.assert_empties(job.memory_left, "mappings")
            self.assertFalse(job.names_left(), job.said)

    def test_over_shared_memory(self):
        for victim in self.VICTIMS:
            with self.subTest(victim):
                self.check("shm", victim)

    def test_over_other_transports(self):
        for transport in ("tcp", "ipc"):
            for victim in ("server 0", "launch.py"):
                with self.subTest(transport=transport, victim=victim):
                    self.check(transport, victim)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
