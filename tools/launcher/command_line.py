"""Arguments of launch.py."""
import argparse
import os
import re
import sys

from . import hostfile, supervisor
from .environment import variables, without_passwords, words_of
from .errors import UsageError
from .job import LAST_PORT, Job, Resources
from .launchers import base
from .messages import COMMAND, IS_INSTALLED, NAME, say
from .version import VERSION

LAUNCHERS = base.load()
OWN_FLAGS = {flag: launcher for launcher in LAUNCHERS.values() for flag in launcher.flags}
CALLED_BY = [name for name, launcher in LAUNCHERS.items() if "agent_port" in launcher.takes]
PROGRAM = "train_mnist" if IS_INSTALLED else "build/bin/train_mnist"
EXAMPLE = f"""examples:
  {COMMAND} -n 2 -s 2 {PROGRAM} --kv-store dist_sync
  {COMMAND} -n 2 -H hosts --sync-dst-dir /tmp/job {PROGRAM}
"""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        """One line, as for every other mistake."""
        raise UsageError(f"{message}; see --help")


def within(flag, value, least, most):
    if value is not None and not least <= value <= most:
        raise UsageError(f"{flag} is {value}; it must be at least {least} and at most {most}")
    return value


def port(flag, least):
    """Reads a port's number for argparse, whose own words do not say what to do."""
    def read(text):
        if not re.fullmatch(r"-?[0-9]+", text):
            raise UsageError(f"{flag} is '{text}'; it must be a number, at least {least} and at most {LAST_PORT}")
        return within(flag, int(text), least, LAST_PORT)
    return read


def parser():
    p = Parser(
        prog=NAME, usage=f"{NAME} -n W [-s S] [options] CMD ...", epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
        description="Starts a Sluice job: one scheduler, servers and workers.\nEvery line of output begins with who said it.")
    p.add_argument("--version", action="version", version=f"Sluice {VERSION}")
    p.add_argument("-n", "--num-workers", type=int, required=True, metavar="W", help="how many workers run CMD")
    p.add_argument("-s", "--num-servers", type=int, metavar="S", help="how many servers (default: as many as workers)")
    p.add_argument("--launcher", choices=LAUNCHERS, metavar="NAME",
                   help=f"how processes reach their hosts: {', '.join(LAUNCHERS)} (default: local, this machine; with -H ssh)")
    p.add_argument("-H", "--hostfile", metavar="FILE", help="hosts, one a line: host[:port] [slots=N] [user=U] [interface=I]")
    p.add_argument("--env", action="append", default=[], metavar="K=V", help="an environment variable for every process; K alone: its value here")
    p.add_argument("--env-server", action="append", default=[], metavar="K=V", help="... for servers")
    p.add_argument("--env-worker", action="append", default=[], metavar="K=V", help="... for workers")
    p.add_argument("--server-command", metavar="CMD", help="a server program of your own, with its arguments, in place of the stock one")
    p.add_argument("--log-dir", metavar="DIR",
                   help="keep each process's output in this folder (default: a temporary one, kept unless all went well)")
    p.add_argument("--dry-run", action="store_true", help="print what would run, and run nothing")
    p.add_argument("--host-ip", metavar="ADDRESS", help="this machine's address, as the other hosts reach it")
    p.add_argument("--port", type=port("--port", 0), default=0, metavar="P", help="the scheduler's port (default: any free one)")
    p.add_argument("--server-port", type=port("--server-port", 1), metavar="P",
                   help="first port of each host's servers, which take one for every SLUICE_SERVER_THREADS (default: any free ones)")
    p.add_argument("--agent-port", type=port("--agent-port", 1), metavar="P", help=f"{NAME}'s port, where agents call: {', '.join(CALLED_BY)} (default: any free one)")
    p.add_argument("--timeout", type=float, metavar="SECONDS", help="give up unless everybody has joined within it (default: 600)")
    p.add_argument("--grace", type=float, metavar="SECONDS",
                   help=f"between SIGTERM and SIGKILL, for workers to save what they have, when the job is ended (default: {supervisor.STOP_GRACE:g})")
    p.add_argument("--verbose", action="store_true", help="say what is done")
    for role in ("worker", "server"):
        p.add_argument(f"--{role}-cores", type=int, metavar="N", help=f"cores of a {role}")
        p.add_argument(f"--{role}-memory", metavar="M", help=f"memory of a {role}, such as 4g or 512m (batch systems)")
        p.add_argument(f"--{role}-gpus", type=int, metavar="N", help=f"GPUs to ask for each {role}, for a program that uses them")
    p.add_argument("--queue", metavar="NAME", help="the batch system's queue; Slurm's partition")
    p.add_argument("--jobname", "--job-name", dest="job_name", metavar="NAME", help="in the batch system's lists")
    for flag, launcher in OWN_FLAGS.items():
        metavar, what = launcher.flags[flag]
        p.add_argument(flag, metavar=metavar, help=f"{launcher.name}: {what}")
    p.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD ...", help="the workers' program and its arguments")
    return p


def server_program(text):
    """The words of --server-command; None without one."""
    if text is None:
        return None
    words = words_of("--server-command", text)
    if not words:
        raise UsageError("--server-command is empty; leave it out for the stock server")
    return words


def megabytes(flag, text):
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)([mg])b?", text.lower())
    if not match or int(match[1]) == 0:
        raise UsageError(f"{flag} is '{text}'; it takes a number with m or g, such as 4g")
    return int(match[1]) << (10 if match[2] == "g" else 0)


def resources(args, role):
    given = vars(args)
    return Resources(within(f"--{role}-cores", given[f"{role}_cores"], 1, 65536), megabytes(f"--{role}-memory", given[f"{role}_memory"]),
                     within(f"--{role}-gpus", given[f"{role}_gpus"], 0, 1024))


def make_job(a):
    command = a.command[1:] if a.command[:1] == ["--"] else a.command
    if not command:
        raise UsageError("no command for the workers; see --help")
    servers = a.num_workers if a.num_servers is None else a.num_servers
    within("-n", a.num_workers, 1, 65536)
    within("-s", servers, 1, 65536)
    everybody = variables(a.env, "--env")
    if a.timeout is not None:
        within("--timeout", a.timeout, 0.1, 86400)
        everybody.setdefault("SLUICE_RENDEZVOUS_TIMEOUT", f"{a.timeout:g}")
    return Job(num_workers=a.num_workers, num_servers=servers, worker_command=command,
               server_command=server_program(a.server_command),
               server_environment={**everybody, **variables(a.env_server, "--env-server")},
               worker_environment={**everybody, **variables(a.env_worker, "--env-worker")},
               scheduler_environment=everybody, server_resources=resources(a, "server"), worker_resources=resources(a, "worker"),
               log_dir=a.log_dir, grace=within("--grace", a.grace, 0, 86400), scheduler_port=a.port, server_port=a.server_port)


def value_of(a, flag):
    return vars(a)[flag[2:].replace("-", "_")]


def refuse_empty(a):
    for flag in ("--hostfile", "--log-dir", "--host-ip", "--queue", "--job-name", *OWN_FLAGS):
        text = value_of(a, flag)
        if text is not None and not text.strip():
            raise UsageError(f"{flag} is empty (an unset variable of the shell?); leave it out or name one")


def make_launcher(a, job):
    name = a.launcher or ("ssh" if a.hostfile else "local")
    interface = job.scheduler_environment.get("DMLC_INTERFACE") or os.environ.get("DMLC_INTERFACE") or None
    options = base.Options(hosts=hostfile.read(a.hostfile) if a.hostfile else None, host_ip=a.host_ip, interface=interface, timeout=a.timeout,
                           queue=a.queue, job_name=a.job_name, agent_port=a.agent_port,
                           own={flag: value_of(a, flag) for flag in OWN_FLAGS}, verbose=a.verbose)
    return LAUNCHERS[name](job, options)


def show(lines):
    """The exit code."""
    try:
        sys.stdout.buffer.write(os.fsencode(without_passwords("\n".join(lines)) + "\n"))
        sys.stdout.buffer.flush()
    except OSError as error:
        say(f"what would run could not be printed: {error.strerror}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python fails once more at its end
        return 1
    return 0


def main(arguments, logs_name, guard_requests, lifeline):
    try:
        args = parser().parse_args(arguments)
        refuse_empty(args)
        job = make_job(args)
        launcher = make_launcher(args, job)
        if args.dry_run:
            return show(launcher.dry_run())
        return supervisor.run(job, launcher, logs_name, guard_requests, lifeline)
    except UsageError as error:
        say(error)
        return 2
