"""What the supervisor asks of a launcher, and what launchers have in common."""
import collections
import importlib
import ipaddress
import os
import pkgutil
import queue
import time
from dataclasses import dataclass, field

from ..environment import shell_line
from ..errors import LaunchError, UsageError
from ..events import Failed, HostIsHere
from ..job import gpus_of, ports_of, require_ports, threads_of
from ..messages import say
from ..placement import over_hosts
from ..rendezvous import listed

HERE = "this machine"
REPORT = 10.0         # seconds between lines that say what is waited for
GATHER_TIMEOUT = 600  # as the scheduler's (SLUICE_RENDEZVOUS_TIMEOUT)
SETTLE = 1.0          # after the first host that fails, for others to fail as well


LAUNCHERS = {}        # by name, once load() has found them
# Options that several launchers take, and not all: each names those that it takes.
SHARED = {"hosts": "--hostfile", "host_ip": "--host-ip", "queue": "--queue", "job_name": "--jobname", "agent_port": "--agent-port"}


@dataclass
class Options:
    """The part of launch.py's command line that is for launchers."""
    hosts: list = None       # the hostfile's lines
    host_ip: str = None
    interface: str = None    # DMLC_INTERFACE
    timeout: float = None    # seconds
    queue: str = None        # the batch system's queue
    job_name: str = None
    agent_port: int = None   # launch.py's port, which agents call
    own: dict = field(default_factory=dict)  # by flag: what one launcher alone takes (Launcher.flags)
    verbose: bool = False


def load():
    """LAUNCHERS: each file of this folder may have one, which registers itself by having a name."""
    for module in pkgutil.iter_modules([os.path.dirname(__file__)]):
        importlib.import_module(f"{__package__}.{module.name}")
    return dict(sorted(LAUNCHERS.items()))


class Launcher:
    """One job's. Methods are called by the supervisor's thread."""
    name = None           # what --launcher says
    takes = frozenset()   # those of SHARED that it takes
    flags = {}            # its own on the command line: {flag: (metavar, help)}
    shares_hosts = True   # nobody holds processes to their part of a host: launch.py tells them what it is
    takes_memory = False  # whether it can hold a process to so much memory
    brings = "hosts"      # what is waited for

    def __init_subclass__(cls):
        if "name" in vars(cls):
            LAUNCHERS[cls.name] = cls

    def __init__(self, job, options):
        self.job, self.options = job, options
        self.check()

    def check(self):
        """UsageError for what this launcher cannot do."""
        for role in ("server", "worker"):
            if self.job.resources(role).memory_mb is not None and not self.takes_memory:
                raise UsageError(f"--{role}-memory is for launchers that can hold a process to it, and {self.name} cannot")
        for option, flag in SHARED.items():
            if option not in self.takes:
                self.refuse(flag, getattr(self.options, option))
        for flag, value in self.options.own.items():
            if flag not in self.flags:
                self.refuse(flag, value)

    def refuse(self, flag, value):
        """An option that means nothing here; None is not given."""
        if value is not None:
            raise UsageError(f"{flag} means nothing to --launcher {self.name}")

    def supervise(self, supervisor):
        """Runs the job: its exit code."""
        return supervisor.watch()

    def gather(self, supervisor):
        """The hosts, once all are there; an exit code when the user has ended it before."""
        raise NotImplementedError

    def places(self, hosts):
        return over_hosts(self.job.num_servers, self.job.num_workers, [1] * len(hosts))

    def scheduler_addresses(self, hosts):
        """Returns the address by which each of `hosts` should call this machine, in their order."""
        if self.options.host_ip:
            return [self.options.host_ip] * len(hosts)
        seen = [host.launcher_address for host in hosts]
        far = [address for address in seen if address and not is_loopback(address)]
        # This machine may be one of the hosts: the others cannot reach what that one sees.
        return [address if address in far else (far or ["127.0.0.1"])[0] for address in seen]

    def variables_of(self, index):
        """Returns the variables of processes on the host of that index."""
        return {}

    def shares(self, places, names):
        """Returns for each place what its process is told of its host and of the others there. `names`: the hosts' machines."""
        workers, servers = (collections.Counter(names[place.index] for place in places if place.role == role) for role in ("worker", "server"))
        require_ports(self.job, max(servers.values(), default=1))
        seen, shares = collections.Counter(), {}
        for place in places:
            name = names[place.index]
            shares[place] = {
                # They share its cores.
                "SLUICE_LOCAL_WORKERS": str(workers[name] or 1),
                **(ports_of(self.job.server_port, seen["server", name]) if place.role == "server" else {}),
                **threads_of(self.job.resources(place.role)),
                **(gpus_of(self.job.resources(place.role), seen[place.role, name]) if self.shares_hosts else {}),
                **self.variables_of(place.index)}
            seen[place.role, name] += 1
        return shares

    def children(self):
        """Pids of processes of its own."""
        return set()

    def cancel(self):
        """At the job's end, however it comes: nothing of it is left with others."""

    def dry_run(self):
        """Lines of what would be done, with secrets hidden."""
        raise NotImplementedError

    def processes_by_host(self, names, places, shares=None):
        """For dry_run(): what would be started, in the words of a shell. Capitals stand for what is known only then."""
        far = names != [HERE]
        root = (self.options.host_ip or ("127.0.0.1" if not far else "ADDRESS"), self.job.scheduler_port or "PORT")
        lines = [f"# on {HERE}: scheduler", self._shell("scheduler", None, root, ["sluice_scheduler"], False, {})]
        shares = shares or self.shares(places, names)
        for index, name in enumerate(names):
            there = [place for place in places if place.index == index]
            lines += [f"# on {name}: " + (", ".join(f"{place.role} {place.rank}" for place in there) or "nothing")]
            lines += [self._shell(place.role, place.rank, root, self.command_of(place.role), far, shares[place]) for place in there]
        return lines

    def command_of(self, role):
        return self.job.worker_command if role == "worker" else self.job.server_command or ["sluice_server"]

    def _shell(self, role, rank, root, command, far, share):
        return shell_line({**self.job.environment(role, rank, root, far), **share}, command)

    # --- For those whose hosts come one by one ---

    def await_hosts(self, supervisor, count, missing, begin_timeout=True):
        """Until `count` are there. `missing(hosts)`: whom to wait for, in words. Without `begin_timeout`, time runs from the first."""
        here, started = supervisor.hosts, time.monotonic()
        limit = self.options.timeout or (GATHER_TIMEOUT if begin_timeout else None)
        next_report = started + REPORT
        while len(here) < count:
            if limit is None and here:
                started, limit = time.monotonic(), GATHER_TIMEOUT
            now = time.monotonic()
            if limit is not None and now > started + limit:
                raise LaunchError(f"not all {self.brings} are there within {limit:.0f} s: {len(here)} of {count}; {missing(here)}")
            try:
                event = supervisor.events.get(timeout=max(0.0, min(next_report, started + (limit or 1e9)) - now))
            except queue.Empty:
                if time.monotonic() >= next_report:
                    say(f"{len(here)} of {count} {self.brings} are there; {missing(here)}")
                    next_report += REPORT
                continue
            if isinstance(event, int):
                return supervisor.end_by(event, set())
            if isinstance(event, HostIsHere):
                here.append(event.host)
            elif isinstance(event, Failed):
                raise LaunchError("; ".join([event.why, *self.others_that_fail(supervisor)]))
            else:
                raise LaunchError(f"host {event.host.name} was lost: {event.why}")
        return here

    @staticmethod
    def others_that_fail(supervisor):
        end, reasons = time.monotonic() + SETTLE, []
        while time.monotonic() < end:
            try:
                event = supervisor.events.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                break
            if isinstance(event, Failed):
                reasons.append(event.why)
            elif isinstance(event, HostIsHere):
                supervisor.hosts.append(event.host)
            elif isinstance(event, int):
                supervisor.events.put(event)
                break
        return reasons


def is_loopback(address):
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def names_missing(expected, hosts):
    here = {host.name for host in hosts}
    return "waiting for " + listed(name for name in expected if name not in here)
