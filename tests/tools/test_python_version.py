"""tools/launch.py under a Python that is too old, or that leaves a script's folder out of its path; the same for what it starts on
other hosts, and for the other programs that are installed."""
import ast
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"
sys.path.insert(0, str(TOOLS))
from launcher import bootstrap, python_version  # noqa: E402

# What an older Python reads before it can be told that it is too old.
READ_FIRST = ["launch.py", "launcher/__init__.py", "launcher/python_version.py", "launcher/agent.py"]
AS_ANOTHER = """import runpy, sys
sys.version_info = ({major}, {minor}, 8, "final", 0)
sys.argv = {arguments!r}
runpy.run_path(sys.argv[0], run_name="__main__")"""


def run(*command, **options):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False, **options)


def in_one_line(text):
    return " ".join(text.split())


class OldPython(unittest.TestCase):
    def as_another(self, minor, *arguments):
        return run(sys.executable, "-c", AS_ANOTHER.format(major=3, minor=minor, arguments=[str(each) for each in arguments]))

    def assert_told(self, done, version):
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        said = in_one_line(done.stderr)
        self.assertTrue(said.startswith("launch.py: Python 3.9 or later is needed here and on every host, and "), said)
        self.assertIn(f" is Python {version}; ", said)
        self.assertLessEqual(max(map(len, done.stderr.splitlines())), 80)

    def test_launch_py_says_which_version_it_needs(self):
        for minor in (6, 7, 8):
            self.assert_told(self.as_another(minor, TOOLS / "launch.py", "-n", "1", "true"), f"3.{minor}.8")

    def test_so_does_an_agent_that_a_batch_system_starts(self):
        self.assert_told(self.as_another(8, TOOLS / "launcher" / "agent.py", "--call", "127.0.0.1:1"), "3.8.8")

    def test_so_does_an_agent_that_comes_by_ssh(self):
        """bootstrap.READ runs what comes through the connection."""
        command = bootstrap.READ.split(" -c ", 1)[1].strip("'")
        done = subprocess.run([sys.executable, "-I", "-c", "import sys; sys.version_info = (3, 6, 8, 'final', 0)\n" + command], input=bootstrap.program(),
                              capture_output=True, timeout=60, check=False)
        done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
        self.assert_told(done, "3.6.8")

    def test_an_old_python_can_read_what_tells_it(self):
        for name in READ_FIRST:
            with self.subTest(name):
                ast.parse((TOOLS / name).read_text(encoding="utf-8"), feature_version=(3, 6))
        for text in (bootstrap.LOAD.format(modules=[]), bootstrap.READ.split(" -c ", 1)[1].strip("'")):
            ast.parse(text, feature_version=(3, 6))
        self.assertEqual(bootstrap.MODULES[0], "python_version")

    def test_the_version_that_is_needed_can_read_all_of_it(self):
        for path in [TOOLS / "launch.py", *(TOOLS / "launcher").rglob("*.py")]:
            with self.subTest(path.name):
                ast.parse(path.read_text(encoding="utf-8"), feature_version=python_version.NEEDED)


class SafePath(unittest.TestCase):
    """PYTHONSAFEPATH=1, -P (Python 3.11) and -I leave out a script's folder."""

    def assert_starts(self, program, *flags, **options):
        done = run(sys.executable, *flags, program, "--help", **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("usage: ", done.stdout)

    def test_programs_find_what_lies_beside_them(self):
        for name in ("launch.py", "get_mnist.py", "get_cifar10.py"):
            with self.subTest(name):
                self.assert_starts(TOOLS / name, "-I")
                self.assert_starts(TOOLS / name, env={**os.environ, "PYTHONSAFEPATH": "1"})

    def test_every_tool_that_needs_another_beside_it_looks_there(self):
        names = {path.stem for path in TOOLS.glob("*.py")} | {"launcher"}
        for path in TOOLS.glob("*.py"):
            text = path.read_text(encoding="utf-8")
            needs = names & {name for name in re.findall(r"^ *(?:import|from) (\w+)", text, flags=re.M)}
            if needs and text.startswith("#!"):
                self.assertIn("sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))", text, f"{path.name} imports {sorted(needs)}")

    def test_through_a_link_as_they_are_installed(self):
        with tempfile.TemporaryDirectory() as folder:
            link = pathlib.Path(folder) / "sluice_launch"
            link.symlink_to(TOOLS / "launch.py")
            self.assert_starts(link, "-I")


if __name__ == "__main__":
    unittest.main(verbosity=1)
