"""What a job consists of: which programs run in which role, with which environment."""
import os
import pathlib
import secrets
import shutil
from dataclasses import dataclass, field

from .errors import UsageError

ROOT = pathlib.Path(__file__).resolve().parents[2]  # of the checkout, or PREFIX/share/sluice
STOCK_FOLDERS = (ROOT / "build" / "bin", ROOT.parent.parent / "bin")


@dataclass
class Job:
    num_workers: int
    num_servers: int
    worker_command: list
    server_command: list = None
    scheduler_environment: dict = field(default_factory=dict)
    server_environment: dict = field(default_factory=dict)
    worker_environment: dict = field(default_factory=dict)
    log_dir: str = None
    id: str = field(default_factory=lambda: f"job-{secrets.token_hex(6)}")
    # Goes to the processes by environment only: a command line is for everybody to see.
    secret: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)

    def environment(self, role, rank, port, extra):
        """Of one process, on top of launch.py's own."""
        place = {
            "DMLC_ROLE": role, "DMLC_NUM_WORKER": str(self.num_workers), "DMLC_NUM_SERVER": str(self.num_servers),
            "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(port),
            "SLUICE_JOB_ID": self.id, "SLUICE_JOB_SECRET": self.secret,
        }
        if rank is not None:
            place["DMLC_RANK"] = str(rank)
        return {**os.environ, **place, **extra}


def find_program(command, what):
    """The command with its program's full path."""
    program = shutil.which(command[0])
    if program is None:
        path = pathlib.Path(command[0])
        why = "is a folder" if command[0] and path.is_dir() else "is not executable" if command[0] and path.exists() else "does not exist"
        raise UsageError(f"{what} '{command[0]}' {why}; 'make build' builds Sluice's programs into build/bin/")
    return [os.path.abspath(program), *command[1:]]


def find_stock(name, worker_program):
    """A stock program: beside the workers' program, where launch.py was built or installed, or on the PATH."""
    for folder in (pathlib.Path(worker_program).parent, *STOCK_FOLDERS):
        if os.access(folder / name, os.X_OK):
            return [str(folder / name)]
    return find_program([name], "the stock program")
