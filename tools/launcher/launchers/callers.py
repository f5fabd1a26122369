"""Launchers whose agents call home: one for each process, started by mpirun or a batch system."""
import os
import subprocess
import threading

from .. import home, placement
from ..errors import UsageError
from ..hosts import RemoteHost
from ..job import ROOT
from ..messages import say
from ..supervisor import Failed, HostIsLost
from .base import HostIsHere, Launcher

AGENT = os.path.join(ROOT, "tools", "launcher", "agent.py")
PATIENCE = 3.0  # seconds for mpirun or srun to end once its agents have
if not os.path.exists(AGENT):  # installed
    AGENT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "agent.py")


class Callers(Launcher):
    """Its hosts are places for one process each, several of which may be on one machine."""
    starts_at_once = True  # no queue in which to wait

    def __init__(self, job, options):
        super().__init__(job, options)
        self.token, self.home = home.new_token(), None

    def count(self):
        return self.job.num_servers + self.job.num_workers

    def agent(self, *arguments):
        """Its command, the same on every host: the folder is shared."""
        where = ",".join(self.home.addresses) if self.home else "ADDRESS,..."
        return ["python3", AGENT, "--call", where, *arguments]

    def begin(self, supervisor):
        """Starts them."""
        raise NotImplementedError

    def status(self):
        """Of those that are not there, in words."""
        return f"waiting for those that {self.name} starts"

    def gather(self, supervisor):
        def welcome(channel, here):
            supervisor.events.put(HostIsHere(RemoteHost(channel, here, lambda lost, why: supervisor.events.put(HostIsLost(lost, why)))))
        self.home = home.Home(self.token, welcome, self.options.host_ip, self.options.interface)
        if self.options.verbose:
            say(f"agents call {', '.join(self.home.addresses)}")
        self.begin(supervisor)
        hosts = self.await_hosts(supervisor, self.count(), lambda _: self.status(), self.starts_at_once)
        if isinstance(hosts, list):
            hosts.sort(key=lambda host: host.hostname)
        return hosts

    def places(self, hosts):
        places = placement.over_seats(self.job.num_servers, self.job.num_workers, [(host.hostname, host.role) for host in hosts])
        assert len(places) == self.count(), "an agent has a role that nobody gave it"
        return places

    def cancel(self):
        if self.home is not None:
            self.home.close()

    def beginning(self):
        """What begin() would do, in lines, with secrets hidden."""
        raise NotImplementedError

    def dry_run(self):
        names = [f"hosts of {self.name}'s choice, by the agents that this starts"]
        places = placement.over_hosts(self.job.num_servers, self.job.num_workers, [1])
        known_there = {"SLUICE_LOCAL_WORKERS": "N", "CUDA_VISIBLE_DEVICES": "N,..."}
        shares = {place: {name: known_there.get(name, value) for name, value in share.items()} for place, share in self.shares(places, names).items()}
        return [*self.beginning(), *self.processes_by_host(names, places, shares)]


class Tool:
    """A program that starts agents and lasts as long as they do: what it says is shown, and its early end tells that they will not come."""

    def __init__(self, command, environment, tell):
        try:
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except OSError as error:
            raise UsageError(f"could not start {command[0]}: {error.strerror}") from error
        self.name, self._tell, self._last = os.path.basename(command[0]), tell, []
        self.is_over = False  # what it says now is about our own end
        threading.Thread(target=self._follow, name=self.name, daemon=True).start()

    def _follow(self):
        with self.process.stdout as pipe:
            for line in pipe:
                text = line.decode(errors="replace").rstrip()
                self._last = [*self._last[-9:], text]
        code = self.process.wait()
        if not self.is_over:
            said = " / ".join(line.strip(" -*") for line in self._last if line.strip(" -*"))
            self._tell(Failed(f"{self.name} ended with {code}" + (f": {said}" if said else "")))

    def end(self, patience=PATIENCE):
        """Once its agents have ended: it does, too."""
        self.is_over = True
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.terminate()


def run(command, what, text=None):
    """Standard output of a short command; UsageError where it fails."""
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        raise UsageError(f"{what}: could not start {command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as late:
        raise UsageError(f"{what}: {command[0]} took more than {late.timeout:.0f} s") from late
    if done.returncode != 0:
        raise UsageError(f"{what}: {command[0]} ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
