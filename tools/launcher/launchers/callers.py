"""Launchers whose agents call launch.py: one for each process, started by mpirun or a batch system."""
import collections
import os

from .. import addresses, agent_port, placement
from ..errors import UsageError
from ..events import HostIsHere, HostIsLost
from ..hosts import RemoteHost
from ..job import ROOT
from ..messages import say
from ..rendezvous import listed
from .base import Launcher

AGENT = os.path.join(ROOT, "tools", "launcher", "agent.py")
if not os.path.exists(AGENT):  # installed
    AGENT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "agent.py")


def short(hostname):
    """Without its domain; an address is no name."""
    return hostname if hostname.replace(".", "").isdigit() else hostname.partition(".")[0]


class Callers(Launcher):
    """Its hosts are places for one process each, several of which may be on one machine."""
    takes = frozenset({"host_ip", "agent_port"})
    starts_at_once = True  # no queue in which to wait
    brings = "agents"

    def __init__(self, job, options):
        super().__init__(job, options)
        self.token, self.agent_port = agent_port.new_token(), None

    def count(self):
        return self.job.num_servers + self.job.num_workers

    def agent(self, *arguments):
        """Its command, the same on every host: the folder is shared."""
        where = ",".join(self.agent_port.addresses) if self.agent_port else "ADDRESS,..."
        grace = ["--grace"] if self.job.grace else []
        return ["python3", AGENT, "--call", where, *grace, *arguments]

    def begin(self, supervisor):
        """Starts them."""
        raise NotImplementedError

    def status(self):
        """Says in words who is not there."""
        return f"waiting for those that {self.name} starts"

    def expected_hosts(self):
        """Their names, where they are known before; each has an agent at least."""
        return []

    def missing(self, here):
        """Who has come, who has not and from where it should come, in words."""
        came = collections.Counter(host.hostname for host in here)
        known = {short(name) for name in came}
        silent = [name for name in self.expected_hosts() if short(name) not in known]
        words = [f"came from {listed(f'{name} ({count})' for name, count in sorted(came.items()))}"] if came else []
        words += [f"none from {listed(silent)}"] if silent else []
        return "; ".join([*words, self.status()])

    def gather(self, supervisor):
        def welcome(channel, here):
            supervisor.events.put(HostIsHere(RemoteHost(channel, here, lambda lost, why: supervisor.events.put(HostIsLost(lost, why)),
                                                         on_asked=supervisor.hear_host)))
        self.asked_to_end = supervisor.asked_to_end
        self.agent_port = agent_port.AgentPort(self.token, welcome, self.options.host_ip, self.interface_here(), self.options.agent_port or 0)
        if self.options.verbose:
            say(f"agents call {', '.join(self.agent_port.addresses)}")
        self.begin(supervisor)
        hosts = self.await_hosts(supervisor, self.count(), self.missing, self.starts_at_once)
        if isinstance(hosts, list):
            hosts.sort(key=self.in_order(self.expected_hosts()))
        return hosts

    @staticmethod
    def in_order(names):
        """Returns the key that sorts agents as their hosts come in the hostfile, which says who is the first; others by name, after them."""
        turns = {short(name): turn for turn, name in reversed(list(enumerate(names)))}
        return lambda host: (turns.get(short(host.hostname), len(names)), host.hostname)

    def interface_here(self):
        """DMLC_INTERFACE is that of the job's hosts; this machine need not have it."""
        try:
            addresses.own(interface=self.options.interface)
        except UsageError as error:
            say(f"{error}; agents are told all addresses of this machine (--host-ip names one)")
            return None
        return self.options.interface

    def places(self, hosts):
        places = placement.over_seats(self.job.num_servers, self.job.num_workers, [(host.machine, host.role) for host in hosts])
        assert len(places) == self.count(), "an agent has a role that nobody gave it"
        return places

    def cancel(self):
        if self.agent_port is not None:
            self.agent_port.close()

    def beginning(self):
        """What begin() would do, in lines, with secrets hidden."""
        raise NotImplementedError

    def dry_run(self):
        names = [f"hosts of {self.name}'s choice, by the agents that this starts"]
        places = placement.over_hosts(self.job.num_servers, self.job.num_workers, [1])
        known_there = {"SLUICE_LOCAL_WORKERS": "N", "SLUICE_LOCAL_SERVER": "N", "CUDA_VISIBLE_DEVICES": "N,..."}
        shares = {place: {name: known_there.get(name, value) for name, value in share.items()} for place, share in self.shares(places, names).items()}
        return [*self.beginning(), *self.processes_by_host(names, places, shares)]
