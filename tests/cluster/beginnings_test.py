"""launch.py before there is a job: files and programs that do not answer, flags that are empty, folders that cannot be written.

Usage: beginnings_test.py BIN_DIR
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from launch_test import LAUNCH, await_that, carrying, command_of, end_launch, end_of, start_job  # noqa: E402


class Beginnings(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def refused(self, *arguments, **options):
        done = subprocess.run([*LAUNCH, *map(str, arguments)], capture_output=True, text=True, timeout=60, **options)
        self.assertNotIn("Traceback", done.stderr)
        return done.returncode, " ".join(done.stderr.split())

    def check_ends(self, *arguments, until):
        """`until(marker)`: a process of those that carry it is where it hangs."""
        for kill, number, expected in (("launch", signal.SIGINT, 130), ("launch", signal.SIGTERM, 143), ("launch", signal.SIGKILL, -9), ("runner", signal.SIGKILL, 137)):
            with self.subTest(kill=kill, number=number):
                marker = f"BEGINNING={os.getpid()}-{kill}-{number}"
                name, _, value = marker.partition("=")
                job = start_job(self, *arguments, env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", name: value})
                await_that(self, lambda: until(marker))
                end_launch(job, kill, number)
                code, said = end_of(job, 20)
                self.assertEqual(code, expected, said)
                self.assertNotIn("Traceback", said)
                await_that(self, lambda: not carrying(marker))

    def test_a_hostfile_that_does_not_come(self):
        os.mkfifo(self.folder / "hosts")
        self.check_ends("-n", 1, "-H", self.folder / "hosts", "true", until=lambda marker: any(opens(pid) for pid in carrying(marker)))

    def test_an_mpirun_that_does_not_tell_its_version(self):
        (self.folder / "mpirun").write_text("#!/bin/sh\nexec sleep 600\n")
        (self.folder / "mpirun").chmod(0o755)
        self.check_ends("-n", 1, "--launcher", "mpi", "--dry-run", "true",
                        until=lambda marker: any(command_of(pid)[:1] == [b"sleep"] for pid in carrying(marker)))

    def test_a_hostfile_through_a_pipe(self):
        """As `echo h1 | launch.py -H /dev/stdin` and `-H <(echo h1)`."""
        done = subprocess.run([*LAUNCH, "-n", "1", "-H", "/dev/stdin", "--dry-run", "true"], input="h1\n", capture_output=True, text=True, timeout=60)
        self.assertIn("# on h1: server 0, worker 0\n", done.stdout, done.stderr)
        done = subprocess.run(["bash", "-c", 'exec "$@" -H <(echo h1) --dry-run true', "bash", *LAUNCH, "-n", "1"], capture_output=True, text=True, timeout=60)
        self.assertIn("# on h1: server 0, worker 0\n", done.stdout, done.stderr)

    def test_flags_that_are_empty(self):
        for flag in ("--hostfile", "--ssh", "--resource-manager", "--sync-dst-dir", "--host-ip", "--log-dir", "--namespace", "--image", "--queue", "--job-name"):
            code, said = self.refused("-n", 1, flag, "", "true")
            self.assertEqual(code, 2)
            self.assertIn(f"{flag} is empty", said)
        self.assertIn("--hostfile is empty", self.refused("-n", 1, "-H", " ", "true")[1])

    def test_a_hostfile_in_utf_16(self):
        (self.folder / "hosts").write_text("h1\nh2\n", encoding="utf-16")
        code, said = self.refused("-n", 1, "-H", self.folder / "hosts", "true")
        self.assertEqual(code, 2)
        self.assertIn("hosts:1: it has a byte 0; is the file in UTF-16?", said)

    def test_a_dry_run_hides_passwords_of_urls(self):
        done = subprocess.run([*LAUNCH, "-n", "1", "--env", "DB_URL=postgres://ann:geheim@h:5/x", "--dry-run", "true", "http://bob:hush@rm/", "http://h:80/a@b",
                               "http://h:80?m=a@b", "https://a1b2@git/x", '{"url": "http://h:80", "mail": "x@y"}', "ftp://ann:p@rt@h/x"],
                              capture_output=True, text=True, timeout=60)
        for words in ("postgres://ann:(hidden)@h:5/x", "http://bob:(hidden)@rm/", "http://h:80/a@b", "http://h:80?m=a@b", "https://(hidden)@git/x",
                      '{"url": "http://h:80", "mail": "x@y"}', "ftp://ann:(hidden)@h/x"):
            self.assertIn(words, done.stdout)

    def test_a_dry_run_that_cannot_be_printed(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([*LAUNCH, "-n", "1", "--dry-run", "true"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (1, "launch.py: what would run could not be printed: No space left on device\n"))

    def test_a_temporary_folder_that_cannot_be_used_is_named(self):
        """Python takes another one without a word."""
        for folder, why in (("/no/such/folder", "does not exist"), (__file__, "is no folder"), ("/proc", "cannot be written to")):
            with self.subTest(why):
                code, said = self.refused("-n", 1, "true", env={**os.environ, "TMPDIR": folder})
                self.assertEqual(code, 2, said)
                self.assertIn(f"TMPDIR is '{folder}', which {why}; ", said)
                self.assertIn("--log-dir", said)

    def test_no_folder_for_logs(self):
        code, said = self.refused("-n", 1, "true", env={**os.environ, "TMPDIR": "/proc/sluice"}, cwd="/proc", preexec_fn=self.without_temporary_folders)
        self.assertEqual(code, 2, said)
        self.assertIn("no folder for the logs", said)
        self.assertIn("--log-dir", said)

    def without_temporary_folders(self):
        """Files cannot grow: that is how Python tries a folder."""
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def opens(pid):
    """Whether the process waits to open a FIFO."""
    try:
        return pathlib.Path(f"/proc/{pid}/wchan").read_text(encoding="ascii") == "wait_for_partner"
    except OSError:
        return False


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
