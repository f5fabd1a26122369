"""Launchers whose agents call home: one for each process, started by mpirun or a batch system."""
import collections
import math
import os
import queue
import shutil
import subprocess
import threading
import time

from .. import addresses, home, placement
from ..errors import Interrupted, UsageError
from ..hosts import RemoteHost
from ..job import ROOT
from ..messages import say
from ..rendezvous import listed
from ..supervisor import Failed, HostIsHere, HostIsLost
from .base import Launcher

AGENT = os.path.join(ROOT, "tools", "launcher", "agent.py")
KEPT = 8        # lines of a program, from each end
LOOK = 0.2      # seconds between looks whether the user ends the job
ANSWER = 3.0    # seconds for a submission that the user ends to be known
PARTING = 5.0   # seconds for a batch system to hear of the end
PATIENCE = 3.0  # seconds for mpirun or srun to end once its agents have
if not os.path.exists(AGENT):  # installed
    AGENT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "agent.py")


def short(hostname):
    """Without its domain; an address is no name."""
    return hostname if hostname.replace(".", "").isdigit() else hostname.partition(".")[0]


class Callers(Launcher):
    """Its hosts are places for one process each, several of which may be on one machine."""
    starts_at_once = True  # no queue in which to wait
    brings = "agents"

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
            supervisor.events.put(HostIsHere(RemoteHost(channel, here, lambda lost, why: supervisor.events.put(HostIsLost(lost, why)))))
        self.asked_to_end = supervisor.asked_to_end
        self.home = home.Home(self.token, welcome, self.options.host_ip, self.interface_here())
        if self.options.verbose:
            say(f"agents call {', '.join(self.home.addresses)}")
        self.begin(supervisor)
        hosts = self.await_hosts(supervisor, self.count(), self.missing, self.starts_at_once)
        if isinstance(hosts, list):
            hosts.sort(key=self.in_order(self.expected_hosts()))
        return hosts

    @staticmethod
    def in_order(names):
        """Of agents: as their hosts come in the hostfile, which says who is the first; others by name, after them."""
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
        self.name, self._tell = os.path.basename(command[0]), tell
        self._first, self._last = [], collections.deque(maxlen=KEPT)  # of what it said
        self.is_over = False  # what it says now is about our own end
        threading.Thread(target=self._follow, name=self.name, daemon=True).start()

    def _follow(self):
        with self.process.stdout as pipe:
            for line in pipe:
                text = line.decode(errors="replace").strip(" -*\r\n")
                if text:
                    (self._first if len(self._first) < KEPT else self._last).append(text)
        code = self.process.wait()
        if not self.is_over:
            said = self.said()
            self._tell(Failed(f"{self.name} ended with {code}" + (f": {said}" if said else "")))

    def said(self):
        """How it began and what it said last: the cause comes first, and may be followed by much."""
        return " / ".join([*self._first, *self._last])

    def end(self, patience=PATIENCE):
        """Once its agents have ended: it does, too."""
        self.is_over = True
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.terminate()


def run(command, what, text=None, asked_to_end=None, deadline=60.0, answer=0.0, pass_fds=(), name=None):
    """Standard output of a short command; UsageError where it fails, Interrupted once `asked_to_end` (an Event) is set and it has
    not ended within `answer` seconds."""
    name = name or command[0]
    if asked_to_end is not None and asked_to_end.is_set():
        raise Interrupted
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=pass_fds)
    except OSError as error:
        raise UsageError(f"{what}: could not start {name}: {error.strerror}") from error
    end, interrupted = time.monotonic() + deadline, False
    with process:
        while True:
            try:
                out, errors = process.communicate(text, timeout=LOOK)
                break
            except subprocess.TimeoutExpired:
                text = None  # what is given once is sent
                if not interrupted and asked_to_end is not None and asked_to_end.is_set():
                    interrupted, end = True, min(end, time.monotonic() + answer)
                if time.monotonic() < end:
                    continue
                process.kill()
                if interrupted:
                    raise Interrupted from None
                raise UsageError(f"{what}: {name} took more than {deadline:.0f} s") from None
    if process.returncode != 0:
        raise UsageError(f"{what}: {name} ended with {process.returncode}: {errors.strip() or out.strip()}")
    return out


# What it submits, and how that is taken back, is told to the guard before it is told here. (Opened for reading as well, a pipe
# without a reader, as a killed guard leaves it, does not block.)
SUBMISSION = r'''
take_back=$1 guard=$2
shift 2
said=$("$@") || exit
job=$(echo "$said" | sed -n '$s/[.;].*//; $p')
echo "[\"$take_back\", \"$job\"]" 1<>"/dev/fd/$guard"
echo "$job"
'''


def submit(command, what, take_back, supervisor, text=None):
    """The number of the job that it submits. However launch.py ends, `take_back` is told it, also when that is while the batch
    system answers: it is given ANSWER to say which job it is."""
    if shutil.which(command[0]) is None:
        raise UsageError(f"{what}: could not start {command[0]}: No such file or directory")
    if supervisor.asked_to_end.is_set():
        raise Interrupted
    supervisor.wishes.add(ANSWER)
    guard = supervisor.wishes.descriptor
    try:
        job = run(["sh", "-c", SUBMISSION, command[0], take_back, str(guard), *command], what, text, supervisor.asked_to_end, answer=ANSWER,
                  pass_fds=(guard,), name=command[0]).strip()
    except Interrupted:
        say(f"{command[0]} has not said within {ANSWER:.0f} s which job it submitted; one may be left in the queue")
        raise
    supervisor.wishes.add(0.0)
    return job


def unless_ended(ask, asked_to_end, answer=0.0):
    """What ask() returns or raises; Interrupted once `asked_to_end` is set and it has done neither within `answer` seconds."""
    outcome = queue.SimpleQueue()

    def work():
        try:
            outcome.put((ask(), None))
        except UsageError as error:
            outcome.put((None, error))
    threading.Thread(target=work, name="question", daemon=True).start()
    end = math.inf
    while time.monotonic() < end:
        try:
            result, error = outcome.get(timeout=LOOK)
        except queue.Empty:
            if asked_to_end.is_set():
                end = min(end, time.monotonic() + answer)
            continue
        if error:
            raise error
        return result
    raise Interrupted
