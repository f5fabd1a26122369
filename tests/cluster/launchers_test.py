"""What every launcher does, with the real programs on hosts of their own: Open MPI, MPICH, Slurm, Grid Engine. ssh_test.py has more of ssh.

Usage: launchers_test.py BIN_DIR [LAUNCHER ...]
"""
import os
import pathlib
import re
import shutil
import signal
import sys
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import any_launcher  # noqa: E402
import labs  # noqa: E402
import sge_lab  # noqa: E402
import slurm_lab  # noqa: E402
import ssh_lab  # noqa: E402
from any_launcher import Jobs  # noqa: E402
from launch_test import await_that, end_of  # noqa: E402


class Mpi(Jobs):
    flavour = None
    hosts_of_mpi = "h1\nh2\nh3\n"
    rsh = None  # a shell's words in place of the lab's ssh

    @classmethod
    def make_lab(cls):
        if shutil.which(f"mpirun.{cls.flavour}") is None:
            raise ssh_lab.lab.Unavailable(f"mpirun.{cls.flavour} is missing: tools/install_deps.sh --tests installs it")
        return ssh_lab.SshHosts(cls.hosts)

    def launch(self, *arguments):
        folder = self.lab.folder / "bin"
        folder.mkdir(exist_ok=True)
        for name, command in (("mpirun", f"exec mpirun.{self.flavour}"), ("rsh", self.rsh or f"exec {self.lab.ssh()}")):
            (folder / name).write_text(f'#!/bin/sh\n{command} "$@"\n')
            (folder / name).chmod(0o755)
        environment = {"PATH": f"{folder}:{os.environ['PATH']}", "OMPI_MCA_plm_rsh_agent": str(folder / "rsh"), "OMPI_MCA_oob_tcp_if_include": "10.77.0.0/24",
                       "TMPDIR": str(self.temporary()), "HYDRA_LAUNCHER": "ssh", "HYDRA_LAUNCHER_EXEC": str(folder / "rsh")}
        return self.lab.launch(*arguments, launcher="mpi", hosts=self.hosts_of_mpi, environment=environment)

    def temporary(self):
        """A folder for mpirun's files here."""
        folder = self.lab.folder / "temporary" / self._testMethodName
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def left(self):
        return super().left() or os.listdir(self.temporary())

    def test_slots(self):
        """As with ssh: three workers to h1, the fourth to h2; servers in turn."""
        self.hosts_of_mpi = "h1 slots=3\nh2\nh3\n"
        job = self.launch("-n", "4", "-s", "2", "/bin/sh", "-c", "hostname; echo $SLUICE_LOCAL_WORKERS here")
        self.addCleanup(job.stdout.close)
        code, said = end_of(job, 60)
        self.assertEqual(code, 0, said)
        self.assertEqual([said.count(text) for text in ("] h1\n", "] h2\n", "] h3\n", "] 3 here\n", "] 1 here\n")], [3, 1, 0, 3, 1], said)

    def test_the_end_before_a_host_answers(self):
        """mpirun has made files by then, and is still in the middle of its start."""
        asked = self.lab.folder / "asked"
        self.rsh = f"touch {asked}; exec sleep 600 #"
        for which, number, expected in (("tools/launch.py", signal.SIGINT, 130), ("tools/launch.py", signal.SIGKILL, -9), ("launcher/runner.py", signal.SIGKILL, 137)):
            with self.subTest(which, number=number):
                job = self.start("true", keeps_logs=False)
                await_that(self, asked.exists)
                self.assertEqual(self.lab.kill_inside(0, which, number), 1)
                code, said = end_of(job, 15)
                self.assertEqual(code, expected, said)
                asked.unlink()
                for logs in re.findall(r"its logs are in (\S+?);?\s", said):
                    shutil.rmtree(logs)
                self.assert_nothing_left()

    def test_a_killed_mpirun(self):
        """Its agents go with it; whichever is noticed first is what is said."""
        job = self.start_long()
        self.assertGreaterEqual(self.lab.kill_inside(0, "mpirun", signal.SIGKILL) + self.lab.kill_inside(0, "mpiexec", signal.SIGKILL), 1)
        code, said = end_of(job, 30)
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"launch.py: (mpirun ended with|host h\d was lost)")
        self.assertNotIn("Traceback", said)
        self.lab.kill_inside(0, "orted", signal.SIGKILL)
        shutil.rmtree(self.temporary())  # killed, it cannot remove its own files
        self.assert_nothing_left(5)  # alone, a worker would notice after 10


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

    def test_a_job_that_waits_is_spoken_of(self):
        self.lab.slurm("scontrol", "update", "PartitionName=debug", "State=DOWN")
        try:
            code, said = self.run_job("--timeout", "11", self.program("kv_tour"), seconds=40)
        finally:
            self.lab.slurm("scontrol", "update", "PartitionName=debug", "State=UP")
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"0 of 5 agents are there; Slurm's job \d+ is PENDING \(\w+\)")
        self.assertRegex(said, r"not all agents are there within 11 s: 0 of 5; Slurm's job \d+ is PENDING")
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
    test_a_job_that_waits_is_spoken_of = test_a_job_that_ends_before_anybody_calls = test_a_partition_that_there_is_not = test_arguments_and_variables_arrive_unchanged = test_no_secret_on_a_command_line = None


    def test_launch_py_in_a_step_of_its_own(self):
        """As after `srun --pty bash`: its step holds the cores."""
        command = ["salloc", "--quiet", "--ntasks=3", "srun", "--ntasks=1", "/usr/bin/python3", ssh_lab.ROOT / "tools" / "launch.py", "--launcher", "slurm", "-n", "2", "-s", "1",
                   self.program("kv_tour"), "--kv-store=dist_sync"]
        job = self.lab.start(command, environment=self.lab.environment)
        self.addCleanup(job.stdout.close)
        code, said = end_of(job, 60)
        self.assertEqual(code, 0, said)
        self.assert_nothing_left()


class Sge(Jobs, unittest.TestCase):
    hosts = 2

    @classmethod
    def make_lab(cls):
        return sge_lab.SgeHosts(cls.hosts)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.lab.bring(*(any_launcher.BIN / name for name in ("train_mnist", "kv_tour", "sluice_server", "sluice_scheduler")))

    def program(self, name):
        return self.lab.home / "build" / "bin" / name

    def launch(self, *arguments):
        return self.lab.launch(*arguments)

    def log_dir(self):
        return self.lab.home / "logs"

    def test_roles_with_cores_and_memory_of_their_own(self):
        code, said = self.run_job("--worker-cores", "2", "--worker-memory", "4g", "sh", "-c", 'echo "slots $NSLOTS, threads $SLUICE_CPU_THREADS, bytes $(ulimit -v)"')
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count("slots 2, threads 2, bytes 4194304\n"), 3, said)
        self.assert_nothing_left()

    def test_a_job_that_waits_is_spoken_of(self):
        code, said = self.run_job("--worker-cores", "9", "--timeout", "11", self.program("kv_tour"), seconds=40)
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"2 of 5 agents are there; came from h\d \(\d\).*; Grid Engine's jobs \d+ and \d+: .*3 x qw")
        self.assertRegex(said, r"not all agents are there within 11 s: 2 of 5; ")
        self.assert_nothing_left()

    def left(self):
        return super().left() or self.lab.sge("qstat", "-u", "*") or [path for path in self.lab.home.glob(".sluice*")]


if __name__ == "__main__":
    any_launcher.BIN = pathlib.Path(sys.argv[1]).resolve()
    labs.move_to_a_tmp_of_ones_own(any_launcher.BIN)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
