"""The command `sluice`, also `python -m sluice`: `sluice launch -n 2 -s 2 python train.py` starts a job."""
import os
import pathlib
import sys
from typing import NoReturn, Optional, Sequence

from . import _core

HERE = pathlib.Path(__file__).resolve().parent
# In a wheel the package holds an installation of the programs; a checkout has them beside it.
INSTALLED = HERE / "_installed" / "share" / "sluice" / "tools" / "launch.py"
CHECKOUT = HERE.parents[1] / "tools" / "launch.py"

USAGE = """Usage: sluice launch -n WORKERS -s SERVERS [OPTION...] PROGRAM [ARGUMENT...]
       sluice launch --help
       sluice check-build        what this installation has, and this machine
       sluice --version
"""


def launcher() -> pathlib.Path:
    """Returns the path of launch.py."""
    return INSTALLED if INSTALLED.exists() else CHECKOUT


def program(name: str) -> pathlib.Path:
    """Returns the path of a stock program, such as sluice_server."""
    installed = HERE / "_installed" / "bin" / name
    return installed if installed.exists() else HERE.parents[1] / "build" / "bin" / name


def _become(*command: str) -> NoReturn:
    sys.stdout.flush()
    os.execv(command[0], list(command))


def main(arguments: Optional[Sequence[str]] = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["launch"]:
        _become(sys.executable, str(launcher()), *words[1:])
    if words == ["check-build"]:
        _become(str(program("sluice_server")), "--check-build")
    if words == ["--version"]:
        print(f"sluice {_core.version}")
        return 0
    is_help = words in (["--help"], ["-h"])
    print(USAGE, end="", file=sys.stdout if is_help else sys.stderr)
    return 0 if is_help else 2
