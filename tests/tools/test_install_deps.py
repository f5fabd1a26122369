"""tools/install_deps.sh: what it does, with stand-ins for Debian's tools; and that its list is the documents'
and covers what the sources include."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "install_deps.sh"
sys.path.insert(0, str(ROOT / "tools"))
import check_layers  # noqa: E402

NEEDED = ("bash", "env", "grep")  # what the script itself calls, beside the stand-ins
STAND_IN = "#!/bin/sh\n{body}\n"


class InstallDeps(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.bin = pathlib.Path(scratch.name)
        self.calls = self.bin / "calls"
        for name in NEEDED:
            (self.bin / name).symlink_to(shutil.which(name))

    def wrap_device(self, name, body):
        path = self.bin / name
        path.write_text(STAND_IN.format(body=body))
        path.chmod(0o755)

    def debian(self, *, installed=(), root=True, sudo=True, apt="true"):
        """A machine with these packages: prints what dpkg-query would, notes calls of apt-get."""
        lines = "".join(f"echo 'installed {name}'\n" for name in installed)
        self.wrap_device("dpkg-query", f"{lines}echo 'config-files git'")
        self.wrap_device("id", f"echo {0 if root else 1000}")
        self.wrap_device("apt-get", f'echo "apt-get $*" >>{self.calls}\n{apt}')
        if sudo:
            self.wrap_device("sudo", f'echo sudo >>{self.calls}\nexec "$@"')

    def run_tool(self, *arguments, **variables):
        return subprocess.run(["/bin/bash", TOOL, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False, timeout=30, env={"PATH": str(self.bin), **variables})

    def named(self, *arguments):
        """What it would install on a machine that has nothing."""
        self.debian()
        done = self.run_tool(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return re.fullmatch(r"Installing from Debian: (.*)\n", done.stdout)[1].split()

    def test_says_what_it_installs_and_asks_for_the_same(self):
        names = self.named("--tests")
        update, install = self.calls.read_text().splitlines()
        self.assertTrue(update.endswith(" update"), update)
        self.assertTrue(install.endswith(" --no-install-recommends " + " ".join(names)), install)

    def test_does_nothing_when_all_is_there(self):
        self.debian(installed=self.named("--develop"))
        self.calls.unlink()
        for arguments in ((), ("--tests",), ("--develop",)):
            done = self.run_tool(*arguments)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertFalse(self.calls.exists())

    def test_a_removed_package_with_kept_configuration_is_missing(self):
        self.debian(installed=[name for name in self.named("--develop") if name != "git"])
        self.assertEqual(self.run_tool().stdout, "Installing from Debian: git\n")

    def test_uses_sudo_only_where_it_must(self):
        self.debian(root=False)
        self.assertEqual(self.run_tool().returncode, 0)
        self.assertEqual(self.calls.read_text().splitlines()[::2], ["sudo", "sudo"])
        (self.bin / "sudo").unlink()
        self.debian(root=False, sudo=False)
        done = self.run_tool()
        self.assertEqual(done.returncode, 1)
        self.assertIn("apt-get install --no-install-recommends build-essential", done.stderr)

    def test_who_may_not_install_goes_on_without_what_tests_are_skipped_without(self):
        everything = self.named("--tests")
        self.calls.unlink()
        (self.bin / "sudo").unlink()
        for missing, code in (("openssh-server", 0), ("clang", 0), ("python3-numpy", 1), ("git", 1)):
            with self.subTest(missing):
                self.debian(installed=[name for name in everything if name != missing], root=False, sudo=False)
                done = self.run_tool("--tests")
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(f" {missing}\n", done.stderr)
                self.assertEqual(self.run_tool("--tests", SLUICE_LABS="required").returncode, 1)

    def test_a_failure_says_what_is_missing(self):
        self.debian(apt="exit 100")
        done = self.run_tool()
        self.assertEqual(done.returncode, 1)
        self.assertIn("failed. Is the network there", done.stderr)
        self.assertIn("libzmq3-dev", done.stderr)

    def test_another_system_is_told_and_goes_on(self):
        done = self.run_tool()
        self.assertEqual(done.returncode, 0)
        self.assertIn("what must be there: build-essential", done.stderr)

    def test_unknown_arguments_are_refused(self):
        self.assertEqual(self.run_tool("--all").returncode, 2)

    def test_the_documents_list_the_same_packages(self):
        text = (ROOT / "docs" / "design" / "dependencies.md").read_text(encoding="utf-8")
        documented, column = set(), None
        for line in text.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
            if "Debian package" in cells:
                column = cells.index("Debian package")
            elif not cells:
                column = None
            elif column is not None:
                documented.update(re.findall(r"`([^`]+)`", cells[column]))
        self.assertEqual(sorted(documented), sorted(self.named("--develop")))


@unittest.skipUnless(shutil.which("dpkg"), "asks Debian which package a header is of")
class Includes(unittest.TestCase):
    # build-essential's
    OF_THE_COMPILER = re.compile(r"libstdc\+\+-\d+-dev|libgcc-\d+-dev|libc6-dev|linux-libc-dev")

    def test_every_header_is_of_a_listed_package(self):
        packages = set(re.findall(r"[\w.+-]+", re.search(r"build=\((.*?)\)", TOOL.read_text(), re.DOTALL)[1]))
        included = self.included()
        owners = self.owners(included)
        for header, users in included.items():
            fine = any(name in packages or self.OF_THE_COMPILER.fullmatch(name) for name in owners[header])
            self.assertTrue(fine, f"<{header}>, which {users[0]} includes, is of "
                                  f"{sorted(owners[header]) or 'no package'}; install_deps.sh lists none")

    def included(self):
        """Each <header> with the files that include it; CUDA's and NCCL's are not Debian's."""
        found = {}
        foreign = [re.compile(pattern) for pattern, homes in check_layers.CONFINED.items()
                   if any("cuda" in home or "nccl" in home for home in homes)]
        for folder in ("src", "include", "examples", "bench", "tests"):
            for path in sorted((ROOT / folder).rglob("*")):
                if path.suffix in (".h", ".cc") and "corpus" not in path.parts:
                    for bracket, header in check_layers.INCLUDE.findall(path.read_text(encoding="utf-8")):
                        if bracket == "<" and not any(pattern.fullmatch(header) for pattern in foreign):
                            found.setdefault(header, []).append(path.relative_to(ROOT))
        return found

    def owners(self, headers):
        """Which packages have a file of this name where the compiler looks."""
        root = pathlib.Path("/usr")
        places = [root / "include", *root.glob("include/*-linux-gnu"), *root.glob("include/c++/*"),
                  *root.glob("lib/gcc/*/*/include")]
        candidates = {place / header: header for header in headers for place in places}
        header_of = {str(path): header for path, header in candidates.items() if path.exists()}
        done = subprocess.run(["dpkg", "-S", *header_of], capture_output=True, text=True, check=False,
                              timeout=60)
        found = {header: set() for header in headers}
        for line in done.stdout.splitlines():
            names, path = line.rsplit(": ", 1)
            found[header_of[path]].update(name.strip().split(":")[0] for name in names.split(","))
        return found


if __name__ == "__main__":
    unittest.main()
