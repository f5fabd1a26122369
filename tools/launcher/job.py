"""What a job consists of: which programs run in which role, with which environment."""
import os
import pathlib
import secrets
import shutil
from dataclasses import dataclass, field

from .environment import travelling
from .errors import UsageError
from .messages import IS_INSTALLED, NAME
from .programs import Program

ROOT = pathlib.Path(__file__).resolve().parents[2]  # the checkout, or PREFIX/share/sluice
INSTALLED = str(ROOT.parent.parent / "bin")
STOCK_FOLDERS = (str(ROOT / "build" / "bin"), INSTALLED)
WHERE = f"Sluice's programs are in {INSTALLED}" if IS_INSTALLED else "'make build' builds Sluice's programs into build/bin/"

LAST_PORT = 65535

# How long OpenMP's waiting threads look for work; they share cores with the job's other processes (docs/design/tensors.md).
TURNS = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


@dataclass(frozen=True)
class Resources:
    """What one process gets; None: what the batch system gives."""
    cores: int = None
    memory_mb: int = None
    gpus: int = None


def working_folder():
    try:
        return os.getcwd()
    except OSError as error:
        raise UsageError(f"the folder that {NAME} was started in is gone: {error.strerror}") from error


@dataclass
class Job:
    num_workers: int
    num_servers: int
    worker_command: list
    server_command: list = None  # None: the stock one
    scheduler_environment: dict = field(default_factory=dict)
    server_environment: dict = field(default_factory=dict)
    worker_environment: dict = field(default_factory=dict)
    server_resources: Resources = Resources()
    worker_resources: Resources = Resources()
    log_dir: str = None
    grace: float = None  # seconds between SIGTERM and SIGKILL; None: the default
    folder: str = field(default_factory=working_folder)  # where processes run
    scheduler_port: int = 0                         # 0: any free one
    server_port: int = None                         # the port of each host's first server; None: any free ones
    id: str = field(default_factory=lambda: f"job-{secrets.token_hex(6)}")
    # Goes to the processes by environment only: a command line is for everybody to see.
    secret: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)

    def programs(self):
        """The workers' program and the servers'."""
        server = (Program(self.server_command, "the server command", advice=WHERE) if self.server_command
                  else Program(["sluice_server"], "the stock program", True, STOCK_FOLDERS, WHERE))
        return [Program(self.worker_command, advice=WHERE), server]

    def scheduler_program(self):
        """On launch.py's machine, where the workers' program may not be."""
        worker = shutil.which(self.worker_command[0])
        beside = (os.path.dirname(os.path.abspath(worker)),) if worker else ()
        return Program(["sluice_scheduler"], "the stock program", True, (*beside, *STOCK_FOLDERS), WHERE)

    def resources(self, role):
        return {"server": self.server_resources, "worker": self.worker_resources}.get(role, Resources())

    def environment(self, role, rank, root, far):
        """Returns the variables of one process. `root`: (host, port) of the scheduler. `far`: on another host, which has not launch.py's own environment."""
        place = {
            "DMLC_ROLE": role, "DMLC_NUM_WORKER": str(self.num_workers), "DMLC_NUM_SERVER": str(self.num_servers),
            "DMLC_PS_ROOT_URI": root[0], "DMLC_PS_ROOT_PORT": str(root[1]),
            "SLUICE_JOB_ID": self.id, "SLUICE_JOB_SECRET": self.secret,
        }
        if rank is not None:
            place["DMLC_RANK"] = str(rank)
        if self.grace is not None and role != "worker":
            place["SLUICE_GRACE"] = f"{self.grace:g}"  # a batch system may signal all at once, and workers need them to the end
        of_role = {"scheduler": self.scheduler_environment, "server": self.server_environment, "worker": self.worker_environment}[role]
        if not any(name in os.environ or name in of_role for name in TURNS):
            place[TURNS[0]] = "3000"
        ours = travelling(os.environ) if far else {}
        if self.resources(role).gpus is not None:
            ours.pop("CUDA_VISIBLE_DEVICES", None)  # who gives them there says which
        return {**ours, **place, **of_role}


def threads_of_server(job):
    """How many ports a server takes; one at least, where only the scheduler or the server itself knows."""
    text = {**os.environ, **job.server_environment}.get("SLUICE_SERVER_THREADS", "")
    return int(text) if text.isdecimal() and int(text) > 0 else 1


def require_ports(job, servers):
    """UsageError unless so many servers of one host have ports from --server-port on."""
    taken = servers * threads_of_server(job)
    highest = LAST_PORT + 1 - taken
    if job.server_port is None or job.server_port <= highest:
        return
    who = "a host's server takes" if servers == 1 else f"the {servers} servers of a host take"
    advice = f"choose {highest} or less" if highest > 0 else "leave it out, and run fewer servers on a host"
    raise UsageError(f"--server-port is {job.server_port}, and {who} {taken} port{'s' if taken > 1 else ''} from there on; the last port is {LAST_PORT}: {advice}")


def ports_of(server_port, nth):
    """What a server, the nth of its host, is told of its ports; how many it takes it knows itself (SLUICE_SERVER_THREADS)."""
    return {"SLUICE_LOCAL_SERVER": str(nth), **({} if server_port is None else {"SLUICE_SERVER_PORT": str(server_port)})}


def threads_of(resources):
    """What a process is told of its cores: not every batch system binds it to them."""
    return {} if resources.cores is None else {"SLUICE_CPU_THREADS": str(resources.cores)}


def gpus_of(resources, nth):
    """What a process, the nth of its role on its host, is told of its GPUs where no batch system gives it some."""
    if resources.gpus is None:
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(str(nth * resources.gpus + i) for i in range(resources.gpus))}
