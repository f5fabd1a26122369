"""Slurm on hosts of ssh_lab.py: munge, slurmctld on the first host, slurmd on every one."""
import re
import subprocess
import time

from ssh_lab import SshHosts, lab

CONFIGURATION = """ClusterName=lab
SlurmctldHost=h1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=1,sched_interval=2
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=3
NodeName={hosts} CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=1000 State=UNKNOWN
PartitionName=debug Nodes={hosts} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""
TOOLS = {"slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client", "munged": "munge"}
UP_DEADLINE = 30.0


class SlurmHosts(SshHosts):
    def __init__(self, count, **options):
        lab.require(TOOLS)
        super().__init__(count, **options)

    def __enter__(self):
        super().__enter__()
        try:
            self.start_munge()
            self.start_slurm()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start_munge(self):
        """As root, with a key and a socket of its own: one for all hosts, which share files."""
        folder = self.folder / "munge"
        folder.mkdir(mode=0o755)
        self.folder.chmod(0o755)
        (folder / "key").write_bytes(b"k" * 64)
        (folder / "key").chmod(0o600)
        self.daemon(0, "munged", "--foreground", "--force", f"--socket={folder}/socket", f"--key-file={folder}/key", f"--log-file={folder}/log",
                    f"--pid-file={folder}/pid", f"--seed-file={folder}/seed")
        end = time.monotonic() + UP_DEADLINE
        while not (folder / "socket").exists():
            if time.monotonic() > end:
                raise lab.Unavailable("munged does not come up")
            time.sleep(0.02)

    def start_slurm(self):
        count = len(self.hosts.hosts)
        (self.folder / "state").mkdir()
        for index in range(count):
            (self.folder / f"spool.h{index + 1}").mkdir()
        self.configuration = self.folder / "slurm.conf"
        self.configuration.write_text(CONFIGURATION.format(folder=self.folder, hosts=f"h[1-{count}]"))
        self.environment = {"SLURM_CONF": str(self.configuration)}
        self.daemon(0, "slurmctld", "-D", "-c", "-f", self.configuration)
        for index in range(count):
            self.daemon(index, "slurmd", "-D", "-f", self.configuration)
        end = time.monotonic() + UP_DEADLINE
        while not re.fullmatch(rf"(idle\n){{{count}}}", self.slurm("sinfo", "--noheader", "--Node", "--format=%T")):
            if time.monotonic() > end:
                raise lab.Unavailable("Slurm does not come up: " + self.slurm("sinfo") + (self.folder / "slurmctld.log").read_text()[-2000:])
            time.sleep(0.2)

    def daemon(self, index, *command):
        self.daemons.append(self.hosts.start(index, [str(part) for part in command], env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **getattr(self, "environment", {})},
                                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def slurm(self, *command):
        """Standard output of one of Slurm's programs, on the first host."""
        return self.inside(0, "env", f"SLURM_CONF={self.configuration}", *command)

    def processes(self, index):
        return {pid: command for pid, command in super().processes(index).items() if not re.match(r"(: )?slurm|(/usr/sbin/)?munged", command)}


