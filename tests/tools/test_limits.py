"""What launch.py says of the operating system's limits: read from folders that look as the kernel's, and from errors."""
import errno
import multiprocessing
import pathlib
import socket
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from launcher import limits  # noqa: E402

V2 = "31 22 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
V1 = ("31 22 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "32 22 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n")


class Groups(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def write_v2(self, group="/kubepods/pod1"):
        self.write("proc/self/cgroup", f"0::{group}\n")
        self.write("proc/self/mountinfo", V2)
        self.write("sys/fs/cgroup/kubepods/pod1/memory.max", "536870912\n")
        self.write("sys/fs/cgroup/kubepods/memory.max", "max\n")
        self.write("sys/fs/cgroup/kubepods/pod1/memory.events", "low 0\noom 1\noom_kill 2\n")
        self.write("sys/fs/cgroup/kubepods/memory.events", "oom_kill 2\n")
        self.write("proc/vmstat", "nr_free_pages 7\noom_kill 5\n")

    def kill(self, *counters):
        for name, count in counters:
            path = self.root / name
            path.write_text("".join(f"oom_kill {count}\n" if line.startswith("oom_kill") else line for line in path.read_text().splitlines(True)))

    def test_a_kill_for_memory_is_told_once_with_the_tightest_limit(self):
        self.write_v2()
        kills = limits.MemoryKills(self.root)
        self.assertIsNone(kills.why())
        self.kill(("sys/fs/cgroup/kubepods/pod1/memory.events", 3), ("sys/fs/cgroup/kubepods/memory.events", 3), ("proc/vmstat", 6))
        why = kills.why()
        self.assertIn("by the kernel, for memory", why)
        self.assertIn("kubepods/pod1 allows 512 MiB (memory.max)", why)
        self.assertIsNone(kills.why())

    def test_two_kills_explain_two_processes(self):
        self.write("proc/vmstat", "nr_free_pages 7\noom_kill 5\n")  # a machine without control groups
        kills = limits.MemoryKills(self.root)
        self.kill(("proc/vmstat", 7))
        self.assertEqual([kills.why() is None for _ in range(3)], [False, False, True])

    def test_what_was_killed_in_other_groups_explains_nothing_here(self):
        self.write_v2()
        kills = limits.MemoryKills(self.root)
        self.kill(("sys/fs/cgroup/kubepods/memory.events", 3), ("proc/vmstat", 6))
        self.assertIsNone(kills.why())

    def test_v1(self):
        self.write("proc/self/cgroup", "4:memory:/job\n8:pids:/job\n")
        self.write("proc/self/mountinfo", V1)
        self.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "314572800\n")
        self.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
        self.write("sys/fs/cgroup/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n")
        kills = limits.MemoryKills(self.root)
        self.kill(("sys/fs/cgroup/memory/job/memory.oom_control", 1))
        self.assertIn("memory/job allows 300 MiB (memory.limit_in_bytes)", kills.why())

    def test_a_name_from_outside_the_containers_namespace(self):
        self.write_v2()
        self.write("proc/self/mountinfo", V2.replace(" / /sys", " /docker/abc /sys"))
        self.write("sys/fs/cgroup/memory.max", "1048576\n")
        self.assertEqual(limits.groups("memory", self.root), [(self.root / "sys/fs/cgroup", True)])
        self.assertIn("allows 1 MiB", limits.memory_limit(self.root))

    def test_a_machine_without_any(self):
        self.assertEqual(limits.groups("memory", self.root), [])
        self.assertIsNone(limits.memory_limit(self.root))
        self.assertIsNone(limits.MemoryKills(self.root).why())


class Words(unittest.TestCase):
    def test_what_the_system_refuses_is_named(self):
        for error, words in ((OSError(errno.EMFILE, "x"), "ulimit -n"), (OSError(errno.ENOSPC, "No space left on device", "/tmp/x"), "/tmp/x; make room"),
                             (BlockingIOError(errno.EAGAIN, "x"), "no process: "), (RuntimeError("can't start new thread"), "no thread: "),
                             (MemoryError(), "no memory: ")):
            self.assertIn(words, limits.in_words(error))

    def test_threads_whose_stacks_cannot_be_mapped(self):
        with mock.patch.object(limits.resource, "getrlimit", lambda which: (1 << 30, 1 << 30)):
            self.assertIn("may map 1024 MiB, the stacks of its threads among them (ulimit -v)", limits.in_words(RuntimeError("can't start new thread")))

    def test_other_errors_are_none_of_these(self):
        for error in (OSError(errno.ENOENT, "x"), RuntimeError("x"), ValueError("x")):
            self.assertIsNone(limits.in_words(error))


def hold_often(name, holders, alone):
    limits.START_LOCK = name
    for _ in range(25):
        with limits.start_lock():
            with holders.get_lock():
                holders.value += 1
            alone.value = alone.value and holders.value == 1
            with holders.get_lock():
                holders.value -= 1


class StartLock(unittest.TestCase):
    def test_one_process_has_it_at_a_time(self):
        fork = multiprocessing.get_context("fork")
        holders, alone = fork.Value("i", 0), fork.Value("b", True)
        name = f"\0sluice-test-{self.id()}"
        processes = [fork.Process(target=hold_often, args=(name, holders, alone)) for _ in range(4)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
            self.assertEqual(process.exitcode, 0)
        self.assertTrue(alone.value)

    def test_an_owner_that_never_ends_is_waited_for_once_and_nothing_fails(self):
        name = f"\0sluice-test-{self.id()}"
        with socket.socket(socket.AF_UNIX) as owner, mock.patch.object(limits, "START_LOCK", name), mock.patch.object(limits, "START_PATIENCE", 0.05):
            owner.bind(name)
            owner.listen()
            self.addCleanup(limits._given_up.clear)
            with limits.start_lock():
                pass
            with mock.patch.object(limits, "owner_ended", side_effect=AssertionError("it waits again")), limits.start_lock():
                pass

    def test_without_descriptors_nothing_fails(self):
        with mock.patch.object(limits.socket, "socket", side_effect=OSError(errno.EMFILE, "too many")), limits.start_lock():
            pass


if __name__ == "__main__":
    unittest.main(verbosity=2)
