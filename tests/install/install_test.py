"""What `cmake --install` leaves is enough: another project builds against it, and programs run from it.

Usage: install_test.py BUILD_FOLDER
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONSUMER = pathlib.Path(__file__).resolve().parent / "consumer"
BUILD = None


def run(*command, timeout=100, **options):
    done = subprocess.run([str(word) for word in command], check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=timeout, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def readme_program():
    """README.md's ten lines of C++."""
    return re.search(r"```cpp\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[1]


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="sluice-install-")
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name)
        cls.prefix = cls.scratch / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.consumer = cls.build_consumer()

    @classmethod
    def build_consumer(cls):
        """The folder of the consumer's programs."""
        source, build = cls.scratch / "source", cls.scratch / "consumer"
        source.mkdir()
        headers = sorted(path.name for path in (cls.prefix / "include" / "sluice").glob("*.h"))
        (source / "all_headers.h").write_text("".join(f'#include "sluice/{name}"\n' for name in headers))
        (source / "ten_lines.cc").write_text(readme_program())
        for path in CONSUMER.iterdir():
            (source / path.name).write_text(path.read_text(encoding="utf-8"))
        run("cmake", "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={cls.prefix}",
            "-DSOURCES=local_store.cc;ten_lines.cc",
            "-DCMAKE_CXX_COMPILER_LAUNCHER=" + os.environ.get("LAUNCHER", ""))
        run("cmake", "--build", build)
        return build

    def test_a_program_of_another_project_uses_a_store(self):
        self.assertEqual(run(self.consumer / "local_store").split(), ["-4", "-8", "-12"])

    def test_the_ten_lines_of_the_readme_run_under_the_installed_launcher(self):
        output = run(self.prefix / "bin" / "sluice_launch", "-n", "2", "-s", "2", self.consumer / "ten_lines",
                     cwd=self.scratch, env=self.bare_environment())
        self.assertNotIn("error", output)

    def test_an_installed_program_runs_under_the_installed_launcher(self):
        programs = self.prefix / "bin"
        output = run(programs / "sluice_launch", "-n", "2", "-s", "1", programs / "train_mnist", "--network=mlp",
                     "--kv-store=dist_sync", "--num-examples=256", "--num-epochs=1",
                     cwd=self.scratch, env=self.bare_environment())
        self.assertRegex(output, r"final test accuracy 0\.\d{4}")

    def test_an_installed_program_names_the_installed_commands(self):
        for flags, command in ((("--kv-store=dist_sync",), "sluice_launch"), (("--data-dir=nowhere",), "sluice_get_mnist")):
            done = subprocess.run([self.prefix / "bin" / "train_mnist", *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=60, cwd=self.scratch, env=self.bare_environment())
            self.assertIn(done.returncode, (1, 2), done.stdout)
            said = " ".join(done.stdout.split())
            self.assertIn(f"with {command}", said)
            self.assertNotIn("tools/", said)

    def test_the_examples_build_against_the_package_and_run(self):
        """As docs/building.md says. Without optimisation: it is the interface that is tried."""
        build = self.scratch / "examples"
        run("cmake", "-G", "Ninja", "-S", self.prefix / "share" / "sluice" / "examples", "-B", build,
            f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS=-O0 -g0",
            "-DCMAKE_CXX_COMPILER_LAUNCHER=" + os.environ.get("LAUNCHER", ""))
        run("cmake", "--build", build, timeout=400)
        names = {path.stem for path in (ROOT / "examples").glob("*.cc") if "int main(" in path.read_text()}
        self.assertGreaterEqual(len(names), 8)
        self.assertEqual({name for name in names if (build / name).is_file()}, names)
        self.assertIn("all values right", run(build / "kv_tour"))
        self.assertIn("--num-devices", run(build / "train_mnist", "--help"))

    def test_tools_documents_and_licence_are_there(self):
        self.assertIn("--dataset", run(self.prefix / "bin" / "sluice_get_mnist", "--help"))
        self.assertIn("CIFAR-10", run(self.prefix / "bin" / "sluice_get_cifar10", "--help"))
        documents = self.prefix / "share" / "doc" / "sluice"
        for name in ("LICENSE", "README.md", "docs/kvstore.md", "docs/design/protocol.md"):
            self.assertTrue((documents / name).is_file(), name)

    def test_nothing_installed_names_the_place_where_it_was_built(self):
        for path in (self.prefix / "lib").rglob("*.cmake"):
            self.assertNotIn(str(ROOT), path.read_text(encoding="utf-8"), path)
        for path in (self.prefix / "bin").glob("sluice_*"):
            if path.is_symlink():
                self.assertFalse(os.readlink(path).startswith("/"), path)

    def bare_environment(self):
        """Nothing that would lead back to the checkout."""
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.scratch)}


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop())
    unittest.main()
