"""Limits of the operating system: whoever runs into one says which, names its number, and ends; nobody hangs, aborts or shows a traceback.

Usage: limits_test.py BIN_DIR
"""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import labs  # noqa: E402
from cluster import Cluster, unwrapped  # noqa: E402

BIN = None
LAUNCH = pathlib.Path(__file__).resolve().parents[2] / "tools" / "launch.py"
PYTHON = "/usr/bin/python3"
SOON = 60  # seconds, in which whatever it is has ended on a busy machine
USER = 54321  # who has no processes of its own
SMALL = ["--network=mlp", "--num-epochs=1", "--num-examples=400", "--kv-store=local"]
# What must never be seen: an abort, a traceback, an error of C++ without words.
RAW = ("Traceback", "Check failed", "terminate called", "unexpected error", "src/thread.cpp", "std::bad_alloc", "stack trace")


def run(command, prefix=(), seconds=SOON, **environment):
    """(exit code, output). A process that hangs is killed, and its output is in the failure."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("DMLC_", "PS_", "SLUICE_"))}
    with subprocess.Popen([str(part) for part in (*prefix, *command)], env={**clean, **environment}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as process:
        try:
            output = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError("it hangs:\n" + process.communicate()[0].decode(errors="replace")) from None
    return process.returncode, unwrapped(output.decode(errors="replace"))


@contextlib.contextmanager
def control_group(controller, **files):
    """A prefix that runs a command in a new control group of v1 or v2 with these limits. The test is skipped where none can be made."""
    lines = [line.split(":", 2) for line in pathlib.Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()]
    own = {controllers: group for _, controllers, group in lines}
    v1 = pathlib.Path("/sys/fs/cgroup", controller + own.get(controller, "/"))
    v2 = pathlib.Path("/sys/fs/cgroup" + own.get("", "/"))
    folder = (v1 if controller in own and v1.is_dir() else v2) / f"sluice-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        labs.missing(f"no control group can be made here ({error}); root with a writable /sys/fs/cgroup has one")
    try:
        for name, value in files.items():
            path = folder / name.replace("__", ".")
            if name == "memory__max" and not path.exists():
                path = folder / "memory.limit_in_bytes"
            if not path.exists():
                labs.missing(f"there is no {path}: the controller '{controller}' is not to be had here")
            path.write_text(str(value))
        yield ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', folder]
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()


class Limits(unittest.TestCase):
    def assert_plain(self, output):
        for raw in RAW:
            self.assertNotIn(raw, output)


class Descriptors(Limits):
    def test_a_scheduler_that_cannot_serve_its_nodes_says_so_at_once(self):
        for limit in (10, 28, 100):
            with self.subTest(limit=limit):
                code, output = run([BIN / "sluice_scheduler"], ["prlimit", f"--nofile={limit}:{limit}"], DMLC_ROLE="scheduler", DMLC_NUM_WORKER="100",
                                   DMLC_NUM_SERVER="2", DMLC_PS_ROOT_URI="127.0.0.1", DMLC_PS_ROOT_PORT="0")
                self.assert_plain(output)
                self.assertEqual(code, 1, output)
                self.assertIn("the connections of 100 workers and 2 servers", output)
                self.assertIn(f"of {limit} are open", output)
                self.assertIn("ulimit -n", output)

    def test_the_job_hears_of_a_server_that_cannot_serve_its_workers(self):
        with Cluster(BIN, 100, 1, SLUICE_SERVER_THREADS=2) as cluster:
            scheduler = cluster.start_scheduler()
            server = cluster.start("server 0", ["prlimit", "--nofile=128:128", BIN / "sluice_server"], DMLC_ROLE="server", DMLC_RANK=0)
            worker = cluster.start_worker(0, [BIN / "kv_tour", "--kv-store=dist_sync"])
            for process in (server, scheduler, worker):
                self.assertEqual(process.wait(SOON), 1, process.output())
                self.assert_plain(process.output())
                self.assertIn("the connections of 100 workers to a server with 2 key-owning threads", process.output())
                self.assertIn("of 128 are open", process.output())

    def test_soft_limits_are_raised_and_workers_keep_theirs_in_what_they_start(self):
        show = ["sh", "-c", f"{BIN}/kv_tour --kv-store=dist_sync && ulimit -Sn"]
        code, output = run([PYTHON, LAUNCH, "-n", "3", "-s", "2", "--env", "SLUICE_SERVER_THREADS=3", *show], ["prlimit", "--nofile=40:4096"])
        self.assertEqual(code, 0, output)
        self.assertEqual(output.count("] 40\n"), 3, output)

    def test_a_child_that_a_worker_forks_has_the_limit_of_before(self):
        probe = BIN.parent / "tests" / "process_probe"
        code, output = run([PYTHON, LAUNCH, "-n", "1", "-s", "4", "--env", "SLUICE_SERVER_THREADS=3", probe, "--what=spawn", "--spawn=fork"],
                           ["prlimit", "--nofile=24:4096"])
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"(nofiles|open files).* 24\n")

    def test_launch_py_with_too_few(self):
        for limit in (8, 12, 20, 30):
            with self.subTest(limit=limit):
                code, output = run([PYTHON, LAUNCH, "-n", "4", "-s", "2", BIN / "kv_tour", "--kv-store=dist_sync"], ["prlimit", f"--nofile={limit}:{limit}"])
                self.assert_plain(output)
                self.assertEqual(code, 1, output)
                self.assertIn("ulimit -n", output)


class Threads(Limits):
    def assert_said(self, code, output):
        """That it ran, or that threads, or processes, are what it lacked."""
        self.assert_plain(output)
        if code != 0:
            self.assertEqual(code, 1, output)
            self.assertRegex(output, r"too few threads for|no thread for|no thread:|no process:")

    def test_one_process_under_each_limit_of_a_user(self):
        if os.geteuid() != 0:
            labs.missing("only root becomes a user without processes of its own")
        codes = []
        for limit in range(1, 9):
            with self.subTest(limit=limit):
                code, output = run([BIN / "train_mnist", *SMALL], ["setpriv", f"--reuid={USER}", "--clear-groups", "prlimit", f"--nproc={limit}:{limit}"])
                self.assert_said(code, output)
                if code != 0:
                    self.assertIn(f"user {USER} may run {limit} threads", output)
                codes.append(code)
        self.assertIn(1, codes)
        self.assertEqual(codes[-1], 0)

    def test_one_process_under_each_limit_of_a_control_group(self):
        for limit in range(1, 7):
            with self.subTest(limit=limit), control_group("pids", pids__max=limit) as inside:
                code, output = run([BIN / "train_mnist", *SMALL], inside)
                self.assert_said(code, output)
                if code != 0:
                    self.assertRegex(output, rf"sluice-test-\d+' allows {limit} \(pids.max\)")

    def test_a_job_under_each_limit_of_a_control_group(self):
        for limit in (1, 2, 4, 6, 8, 10, 12, 15, 18, 22, 26, 30, 34):
            with self.subTest(limit=limit), control_group("pids", pids__max=limit) as inside:
                code, output = run([PYTHON, LAUNCH, "-n", "1", "-s", "1", BIN / "kv_tour", "--kv-store=dist_sync"], inside)
                self.assert_said(code, output)


class Stacks(Limits):
    def test_stacks_that_are_too_small_end_with_words(self):
        for kilobytes in (64, 128, 200, 256, 512):
            with self.subTest(kilobytes=kilobytes):
                code, output = run([BIN / "train_mnist", *SMALL], ["prlimit", f"--stack={kilobytes << 10}"])
                self.assert_plain(output)
                self.assertEqual(code, 0 if kilobytes >= 256 else 1, output)
                if code == 1:
                    self.assertRegex(output, rf"{kilobytes} KiB.*ulimit -s")


class Memory(Limits):
    def test_who_was_killed_by_the_kernel_is_told_so_with_the_limit(self):
        with control_group("memory", memory__max=400 << 20) as inside:
            eats = [PYTHON, "-c", "x = bytearray(1 << 30)"]
            code, output = run([PYTHON, LAUNCH, "-n", "1", "-s", "1", *eats], inside)
        self.assertEqual(code, 128 + signal.SIGKILL, output)
        self.assertIn("worker 0", output)
        self.assertRegex(output, r"ended with signal SIGKILL, by the kernel, for memory: the control group \S+ allows 400 MiB")

    def test_what_an_agent_has_started_and_the_kernel_killed_is_told_as_well(self):
        if shutil.which("mpirun") is None:
            labs.missing("there is no mpirun")
        with control_group("memory", memory__max=400 << 20) as inside:
            eats = [PYTHON, "-c", "x = bytearray(1 << 30)"]
            code, output = run([PYTHON, LAUNCH, "-n", "1", "-s", "1", "--launcher", "mpi", *eats], inside)
        self.assertEqual(code, 128 + signal.SIGKILL, output)
        self.assertRegex(output, r"worker 0 \(host [^)]+\) ended with signal SIGKILL, by the kernel, for memory: the control group \S+ allows 400 MiB")

    def test_memory_that_is_refused_ends_with_words(self):
        """By `ulimit -v`: from where programs can just be loaded over where oneDNN generates code to where all goes well."""
        codes = set()
        for megabytes in (*range(100, 160, 5), *range(160, 400, 40), 600):
            with self.subTest(megabytes=megabytes):
                code, output = run([BIN / "train_mnist", *SMALL], ["prlimit", f"--as={megabytes << 20}"])
                if code == 127:  # the loader of the system has not got so far
                    continue
                codes.add(code)
                self.assert_plain(output)
                self.assertIn(code, (0, 1), output)
                if code == 1:
                    self.assertRegex(output, r"memory|thread")
        self.assertIn(1, codes)


class Disks(Limits):
    def test_a_file_beyond_the_limit_of_sizes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "p.safetensors")
            path.write_text("old")
            code, output = run([BIN / "train_mnist", *SMALL, f"--save-params={path}"], ["prlimit", "--fsize=10000:10000"])
            self.assert_plain(output)
            self.assertEqual(code, 1, output)
            self.assertIn(f"'{path}", output)
            self.assertIn("ulimit -f", output)
            self.assertEqual(path.read_text(), "old")
            self.assertEqual(len(os.listdir(folder)), 1)

    def test_a_full_disk(self):
        if os.geteuid() != 0:
            labs.missing("only root mounts a small disk")
        with tempfile.TemporaryDirectory() as folder:
            script = f"mount -t tmpfs -o size=64k none {folder} && echo old > {folder}/p && {{ \"$@\"; code=$?; cat {folder}/p; ls {folder} | wc -l; exit $code; }}"
            code, output = run([BIN / "train_mnist", *SMALL, f"--save-params={folder}/p"], ["unshare", "-m", "sh", "-c", script, "sh"])
        self.assert_plain(output)
        self.assertEqual(code, 1, output)
        self.assertIn(f"'{folder}/p", output)
        self.assertIn("No space left on device; make room", output)
        self.assertTrue(output.endswith("old\n1\n"), output)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
