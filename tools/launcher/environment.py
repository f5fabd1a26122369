"""Words of commands, and variables: those that --env and its like name, and those of launch.py's own that reach other hosts."""
import os
import re
import shlex

from .errors import UsageError
from .messages import NAME

# Places and secrets of this job.
OWN_VARIABLES = {"DMLC_ROLE", "DMLC_RANK", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "DMLC_PS_ROOT_PORT", "SLUICE_JOB_ID",
                 "SLUICE_JOB_SECRET", "SLUICE_PORT_FD"}
TRAVELLING = ("DMLC_", "PS_", "SLUICE_", "MXNET_", "OMP_", "GOMP_", "NCCL_")
ALSO_TRAVELLING = {"CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "PYTHONPATH"}


# For --dry-run, whose lines are pasted into tickets.
HIDDEN = "(hidden)"
SECRET_NAMES = re.compile(r"SECRET|TOKEN|PASS|PWD|AUTH|CREDENTIAL|KEY|(?<![A-Z])PAT(?![A-Z])", re.IGNORECASE)
PASSWORD_OF_URL = re.compile(r"""(\b[a-z][a-z0-9+.-]*://[^\s/:@?#,"'\[\]]*):[^\s/?#,"'\[\]]+@""", re.IGNORECASE)
TOKEN_OF_URL = re.compile(r"""(\bhttps?://)[^\s/:@?#,"'\[\]]+@""", re.IGNORECASE)


def shown(name, value):
    return HIDDEN if SECRET_NAMES.search(name) else value


def shell_line(variables, command):
    return " ".join([*(f"{name}={shlex.quote(shown(name, value))}" for name, value in sorted(variables.items())), shlex.join(command)])


def without_passwords(text):
    """Hides the passwords of the URLs in `text`: user:password@host, and with http token@host."""
    return TOKEN_OF_URL.sub(rf"\1{HIDDEN}@", PASSWORD_OF_URL.sub(rf"\1:{HIDDEN}@", text))


def words_of(flag, text):
    """The words of a command, as a shell reads them."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{flag} is {text!r}: {error}") from error


def split(pair, flag):
    """(name, value) of NAME=VALUE, of NAME:VALUE as users of MXNet write it, of NAME alone: launch.py's own value."""
    at = min((pair.index(sign) for sign in "=:" if sign in pair), default=len(pair))
    name, value = pair[:at], pair[at + 1:]
    if not name or any(c.isspace() for c in name):
        raise UsageError(f"{flag} takes NAME=VALUE or NAME, not '{pair}'")
    if name in OWN_VARIABLES:
        raise UsageError(f"{flag} names {name}, which {NAME} sets itself for each process")
    if at == len(pair):
        if name not in os.environ:
            raise UsageError(f"{flag} names {name}, which is not set here; {flag} {name}=VALUE sets it")
        value = os.environ[name]
    return name, value


def variables(pairs, flag):
    return dict(split(pair, flag) for pair in pairs)


def travelling(environment):
    """What processes on other hosts get of it."""
    return {name: value for name, value in environment.items()
            if (name.startswith(TRAVELLING) or name in ALSO_TRAVELLING) and name not in OWN_VARIABLES}
