"""What every launcher does, with the real programs on hosts of their own: Open MPI, MPICH, Slurm, Grid Engine. ssh_test.py has more of ssh.

Usage: launchers_test.py BIN_DIR [LAUNCHER ...]
"""
import os
import pathlib
import re
import shutil
import signal
import sys
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import sge_lab  # noqa: E402
import slurm_lab  # noqa: E402
import ssh_lab  # noqa: E402
from launch_test import end_of  # noqa: E402
from ssh_test import NASTY  # noqa: E402

BIN = None
TRAIN = ["--network=lenet", "--kv-store=dist_sync", "--num-steps=40", "--num-examples=2000"]
LONG = ["--network=mlp", "--kv-store=dist_sync", "--num-epochs=1000", "--disp-batches=5"]
SHARED = ("/tmp", "/dev/shm")


class Jobs:
    """The suite; a class below gives it hosts."""
    hosts = 3
    workers, servers = 3, 2

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(ssh_lab.or_skip(cls.make_lab))

    def setUp(self):
        self.before = self.names()

    @staticmethod
    def names():
        """But a compiler's."""
        return {os.path.join(folder, name) for folder in SHARED for name in os.listdir(folder) if not re.fullmatch(r"cc\w{6}\..*", name)}

    def program(self, name):
        return BIN / name

    def launch(self, *arguments):
        raise NotImplementedError

    def start(self, *arguments, until=None):
        job = self.launch("-n", str(self.workers), "-s", str(self.servers), "--log-dir", self.log_dir(), *arguments)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.wait)
        self.addCleanup(self.lab.kill_inside, 0, "launch", signal.SIGKILL)
        for line in job.stdout if until else ():
            if until in line:
                return job
        if until:
            self.fail("the job ended before it trained")
        return job

    def log_dir(self):
        return self.lab.folder / "logs"

    def run_job(self, *arguments, seconds=120):
        return end_of(self.start(*arguments), seconds)

    def assert_nothing_left(self, seconds=10):
        end = time.monotonic() + seconds
        while left := self.left():
            self.assertLess(time.monotonic(), end, f"left: {left}")
            time.sleep(0.1)

    def left(self):
        processes = {index: running for index in range(self.hosts) if (running := self.lab.processes(index))}
        return processes or self.names() - self.before

    def start_long(self):
        return self.start(self.program("train_mnist"), *LONG, until="batch")

    # --- The tests ---

    def test_40_steps_of_lenet(self):
        code, said = self.run_job(self.program("train_mnist"), *TRAIN)
        self.assertEqual(code, 0, said)
        self.assertIn("[worker 0] final test accuracy", said)
        self.assertIn(f"dist_sync, {self.workers} workers", said)
        self.assert_nothing_left()

    def test_a_killed_worker(self):
        job = self.start_long()
        index, pid = next((index, pid) for index in range(self.hosts - 1, -1, -1) for pid, command in self.lab.processes(index).items() if command.startswith(str(self.program("train_mnist"))))
        self.lab.inside(index, "kill", "-9", str(pid))
        code, said = end_of(job, 15)
        self.assertEqual(code, 137, said)
        self.assertRegex(said, rf"launch.py: worker \d \(host h{index + 1}, pid \d+\) ended with signal SIGKILL; it")
        self.assert_nothing_left()

    def test_ctrl_c(self):
        job = self.start_long()
        self.lab.kill_inside(0, "tools/launch.py", signal.SIGINT)
        code, said = end_of(job, 15)
        self.assertEqual(code, 130, said)
        self.assert_nothing_left()

    def test_kill_9_of_launch_py(self):
        for which in ("tools/launch.py", "launcher/runner.py"):
            with self.subTest(which):
                job = self.start_long()
                self.assertEqual(self.lab.kill_inside(0, which, signal.SIGKILL), 1)
                self.assert_nothing_left()
                end_of(job, 10)

    def test_arguments_and_variables_arrive_unchanged(self):
        value = "a b'\"$HOME;\n\u00fc"
        script = "import os, sys; print(ascii(sys.argv[1:]), ascii(os.environ['NAMED']))"
        code, said = self.run_job("--env", f"NAMED={value}", "/usr/bin/python3", "-c", script, *NASTY)
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count(f"{ascii(NASTY)} {ascii(value)}"), self.workers, said)

    def test_no_secret_on_a_command_line(self):
        job = self.start_long()
        environments, lines = "", ""
        for index in range(self.hosts):
            lines += self.lab.inside(index, "ps", "-ewwo", "args")
            for pid in self.lab.processes(index):
                environments += self.lab.inside(index, "cat", f"/proc/{pid}/environ").replace("\0", "\n")
        secrets = set(re.findall(r"^SLUICE_(?:JOB_SECRET|LAUNCH_TOKEN)=([0-9a-f]{64})$", environments, flags=re.M))
        self.assertGreaterEqual(len(secrets), 1)
        for secret in secrets:
            self.assertNotIn(secret, lines)
        self.lab.kill_inside(0, "tools/launch.py", signal.SIGINT)
        end_of(job, 15)


class Mpi(Jobs):
    flavour = None

    @classmethod
    def make_lab(cls):
        if shutil.which(f"mpirun.{cls.flavour}") is None:
            raise ssh_lab.lab.Unavailable(f"mpirun.{cls.flavour} is missing: tools/install_deps.sh --tests installs it")
        return ssh_lab.SshHosts(cls.hosts)

    def launch(self, *arguments):
        folder = self.lab.folder / "bin"
        folder.mkdir(exist_ok=True)
        for name, command in (("mpirun", f"mpirun.{self.flavour}"), ("rsh", self.lab.ssh())):
            (folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (folder / name).chmod(0o755)
        environment = {"PATH": f"{folder}:{os.environ['PATH']}", "OMPI_MCA_plm_rsh_agent": str(folder / "rsh"), "OMPI_MCA_oob_tcp_if_include": "10.77.0.0/24",
                       "HYDRA_LAUNCHER": "ssh", "HYDRA_LAUNCHER_EXEC": str(folder / "rsh")}
        return self.lab.launch(*arguments, launcher="mpi", environment=environment)


class OpenMpi(Mpi, unittest.TestCase):
    flavour = "openmpi"


class Mpich(Mpi, unittest.TestCase):
    flavour = "mpich"


class Slurm(Jobs, unittest.TestCase):
    """A batch job."""

    @classmethod
    def make_lab(cls):
        return slurm_lab.SlurmHosts(cls.hosts)

    def launch(self, *arguments):
        return self.lab.launch(*arguments, launcher="slurm", hosts=None, environment=self.lab.environment)

    def left(self):
        return super().left() or self.lab.slurm("squeue", "--noheader", "--states=PENDING,RUNNING")

    def test_roles_with_cores_and_memory_of_their_own(self):
        code, said = self.run_job("--worker-cores", "2", "--worker-memory", "200m", "--server-cores", "1", self.program("kv_tour"), "--kv-store=dist_sync")
        self.assertEqual(code, 0, said)
        self.assert_nothing_left()

    def test_a_job_that_ends_before_anybody_calls(self):
        agent = self.lab.folder / "no-agent"
        agent.write_text("#!/bin/sh\nexit 3\n")
        agent.chmod(0o755)
        (self.lab.folder / "python3").unlink(missing_ok=True)
        (self.lab.folder / "python3").symlink_to(agent)  # what the batch job finds
        with unittest.mock.patch.dict(self.lab.environment, PATH=f"{self.lab.folder}:{os.environ['PATH']}"):
            code, said = self.run_job(self.program("kv_tour"), seconds=30)
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"Slurm's job \d+ has ended before all its processes came")

    def test_a_partition_that_there_is_not(self):
        code, said = self.run_job("--queue", "nosuch", self.program("kv_tour"), "--kv-store=dist_sync")
        self.assertEqual(code, 2, said)
        self.assertIn("invalid partition", said)


class SlurmAllocation(Slurm):
    """Steps of an allocation that is there."""

    def launch(self, *arguments):
        command = ["salloc", "--quiet", f"--ntasks={self.workers + self.servers + 4}", "/usr/bin/python3", ssh_lab.ROOT / "tools" / "launch.py", "--launcher", "slurm", *arguments]
        return self.lab.start(command, environment=self.lab.environment)

    # A step is a step: these differ in nothing.
    test_a_job_that_ends_before_anybody_calls = test_a_partition_that_there_is_not = test_arguments_and_variables_arrive_unchanged = test_no_secret_on_a_command_line = None


class Sge(Jobs, unittest.TestCase):
    hosts = 2

    @classmethod
    def make_lab(cls):
        return sge_lab.SgeHosts(cls.hosts)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.lab.bring(*(BIN / name for name in ("train_mnist", "kv_tour", "sluice_server", "sluice_scheduler")))

    def program(self, name):
        return self.lab.home / "build" / "bin" / name

    def launch(self, *arguments):
        return self.lab.launch(*arguments)

    def log_dir(self):
        return self.lab.home / "logs"

    def left(self):
        return super().left() or self.lab.sge("qstat", "-u", "*") or [path for path in self.lab.home.glob(".sluice*")]


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
