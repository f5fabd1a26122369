"""tools/cores.sh on folders that look as the kernel's, and tools/cores.py, which asks it."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
import cores  # noqa: E402

TOOL = TOOLS / "cores.sh"
HERE = len(os.sched_getaffinity(0))


class Cores(unittest.TestCase):
    def cores(self, groups, **files):
        """With these lines of /proc/self/cgroup and these files under /sys/fs/cgroup, their slashes written as __."""
        with tempfile.TemporaryDirectory() as root:
            for name, text in {"proc/self/cgroup": groups, **{f"sys/fs/cgroup/{name.replace('__', '/')}": text for name, text in files.items()}}.items():
                path = pathlib.Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text + "\n")
            done = subprocess.run([TOOL, root], capture_output=True, text=True, check=True)
            self.assertEqual(done.stderr, "")
            return int(done.stdout)

    def test_without_a_quota_they_are_those_of_the_affinity(self):
        self.assertEqual(self.cores("0::/"), HERE)
        self.assertEqual(self.cores("0::/", **{"cpu.max": "max 100000"}), HERE)
        self.assertEqual(self.cores("4:cpu,cpuacct:/", **{"cpu,cpuacct__cpu.cfs_quota_us": "-1", "cpu,cpuacct__cpu.cfs_period_us": "100000"}), HERE)
        self.assertEqual(self.cores(""), HERE)

    def test_a_quota_is_rounded_up(self):
        self.assertEqual(self.cores("0::/", **{"cpu.max": "50000 100000"}), 1)
        self.assertEqual(self.cores("0::/", **{"cpu.max": "150000 100000"}), min(2, HERE))
        self.assertEqual(self.cores("0::/", **{"cpu.max": "900000000 100000"}), HERE)

    def test_that_of_a_parent_counts(self):
        self.assertEqual(self.cores("0::/a/b", **{"a__cpu.max": "100000 100000", "a__b__cpu.max": "max 100000"}), 1)
        self.assertEqual(self.cores("7:cpu:/a/b", **{"cpu__a__cpu.cfs_quota_us": "100000", "cpu__a__cpu.cfs_period_us": "100000"}), 1)

    def test_the_tools_in_python_ask_it(self):
        bound = {min(os.sched_getaffinity(0))}
        one = subprocess.run([sys.executable, "-c", "import cores; print(cores.allowed())"], env={**os.environ, "PYTHONPATH": str(TOOLS)},
                             capture_output=True, text=True, check=True, preexec_fn=lambda: os.sched_setaffinity(0, bound))
        self.assertEqual(one.stdout, "1\n")
        self.assertEqual(cores.allowed(), int(subprocess.run([TOOL], capture_output=True, text=True, check=True).stdout))


if __name__ == "__main__":
    unittest.main(verbosity=2)
