"""Arguments of tools/launch.py."""
import argparse
import shlex

from . import local
from .errors import UsageError
from .job import Job
from .messages import say

EXAMPLE = """example:
  tools/launch.py -n 2 -s 2 build/bin/train_mnist --kv-store dist_sync
"""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        """One line, as for every other mistake."""
        raise UsageError(f"{message}; see --help")


def parser():
    p = Parser(
        prog="launch.py", usage="launch.py -n W [-s S] [options] CMD ...", epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
        description="Starts a Sluice job: one scheduler, servers and workers.\nEvery line of output begins with who said it.")
    p.add_argument("-n", "--num-workers", type=int, required=True, metavar="W", help="how many workers run CMD")
    p.add_argument("-s", "--num-servers", type=int, metavar="S", help="how many servers (default: as many as workers)")
    p.add_argument("--launcher", default="local", choices=["local"], help="where processes run (default: local, this machine)")
    p.add_argument("-H", "--hostfile", metavar="FILE", help=argparse.SUPPRESS)
    p.add_argument("--env", action="append", default=[], metavar="K=V", help="an environment variable for every process")
    p.add_argument("--env-server", action="append", default=[], metavar="K=V", help="... for servers")
    p.add_argument("--env-worker", action="append", default=[], metavar="K=V", help="... for workers")
    p.add_argument("--server-command", metavar="CMD", help="a server program of your own, with its arguments, in place of the stock one")
    p.add_argument("--log-dir", metavar="DIR",
                   help="keep each process's output in this folder (default: a temporary one, kept unless all went well)")
    p.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD ...", help="the workers' program and its arguments")
    return p


# Places and secrets of this job.
OWN_VARIABLES = {"DMLC_ROLE", "DMLC_RANK", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "DMLC_PS_ROOT_PORT", "SLUICE_JOB_ID",
                 "SLUICE_JOB_SECRET", "SLUICE_PORT_FD"}


def environment(pairs, flag):
    variables = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"{flag} takes NAME=VALUE, not '{pair}'")
        if name in OWN_VARIABLES:
            raise UsageError(f"{flag} names {name}, which launch.py sets itself for each process")
        variables[name] = value
    return variables


def server_program(text):
    """The words of --server-command; None without one."""
    if text is None:
        return None
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--server-command is {text!r}: {error}") from error
    if not words:
        raise UsageError("--server-command is empty; leave it out for the stock server")
    return words


def make_job(arguments):
    a = parser().parse_args(arguments)
    command = a.command[1:] if a.command[:1] == ["--"] else a.command
    if a.hostfile is not None:
        raise UsageError("-H FILE means the ssh launcher, which this version does not have; leave it out to run on this machine")
    if not command:
        raise UsageError("no command for the workers; see --help")
    servers = a.num_workers if a.num_servers is None else a.num_servers
    for flag, count in (("-n", a.num_workers), ("-s", servers)):
        if not 1 <= count <= 65536:
            raise UsageError(f"{flag} is {count}; it must be at least 1 and at most 65536")
    everybody = environment(a.env, "--env")
    return Job(num_workers=a.num_workers, num_servers=servers, worker_command=command,
               server_command=server_program(a.server_command),
               server_environment={**everybody, **environment(a.env_server, "--env-server")},
               worker_environment={**everybody, **environment(a.env_worker, "--env-worker")},
               scheduler_environment=everybody, log_dir=a.log_dir)


def main(arguments, logs_name):
    try:
        return local.run(make_job(arguments), logs_name)
    except UsageError as error:
        say(error)
        return 2
