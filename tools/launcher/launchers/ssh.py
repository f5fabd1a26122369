"""--launcher ssh: one connection to each host of the hostfile, through which the agent comes, is spoken to, and ends."""
import contextlib
import shlex
import subprocess
import threading
import time

from .. import bootstrap
from ..channel import Channel, Closed
from ..environment import words_of
from ..errors import UsageError
from ..events import Failed, HostIsHere, HostIsLost
from ..hosts import RemoteHost
from ..messages import say
from ..placement import over_hosts
from .base import Launcher, names_missing

AT_ONCE = 8            # logins that are under way: sshd refuses more (MaxStartups)
TRIES = 5              # how often a connection is tried that is cut while it begins
FIRST_PAUSE = 0.5      # seconds before the second; then it doubles
CONNECT_TIMEOUT = 10   # seconds, of TCP
RSYNC_SILENCE = 60     # seconds without a byte
LOGIN_TIMEOUT = 30.0   # seconds until the agent says hello
SSH = ("ssh", "-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_TIMEOUT}", "-o", "ServerAliveInterval=3", "-o", "ServerAliveCountMax=3")
# What ssh says when the other end hung up before anybody was asked who he is.
TRY_AGAIN = ("Connection reset", "Connection closed", "kex_exchange_identification", "Broken pipe", "closed by remote host")


def what_matters(notes):
    """Returns the lines of ssh's standard error without what greets everybody."""
    return [note for note in notes if not note.startswith(("Warning: Permanently added", "** ", "Pseudo-terminal"))]


class Connection:
    """One ssh process, and what it says on standard error."""

    def __init__(self, command, on_note):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._notes, self._on_note = [], on_note
        self._reader = threading.Thread(target=self._read_notes, name="ssh's errors", daemon=True)
        self._reader.start()
        self.channel = Channel(self.process.stdout.fileno(), self.process.stdin.fileno(), self.close)

    def _read_notes(self):
        with self.process.stderr as pipe:
            for line in pipe:
                text = line.decode(errors="replace").strip()
                if text:
                    self._notes.append(text)
                    self._on_note(text)

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def why(self):
        """In words, once it has ended or is to."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1)
        self._reader.join(1)
        code = self.process.poll()
        return "; ".join(what_matters(self._notes)[-3:]) or (f"ssh ended with exit code {code}" if code is not None else "")


class Ssh(Launcher):
    name = "ssh"
    takes = frozenset({"hosts", "host_ip"})
    flags = {"--sync-dst-dir": ("DIR", "copy this folder into DIR on every host first, and run there"),
             "--ssh": ("CMD", "the command, with options of your own (default: ssh)")}

    def check(self):
        super().check()
        self.sync_dst_dir, command = (self.options.own.get(flag) for flag in self.flags)
        self._program = words_of("--ssh", command) if command else SSH[:1]
        if not self.options.hosts:
            raise UsageError("--launcher ssh needs hosts: -H FILE")
        if self.sync_dst_dir:
            self.job.folder = self.sync_dst_dir
        self._connections, self._logins = {}, threading.Semaphore(AT_ONCE)
        self._given_up = threading.Event()

    # --- What runs ---

    def ssh(self, host):
        """ssh's own command, without where to."""
        words = [*self._program, *SSH[1:]]
        return [*words, "-p", str(host.port)] if host.port else words

    def command(self, host):
        return [*self.ssh(host), host.target(), bootstrap.READ]

    def rsync(self, host):
        bracketed = f"[{host.name}]" if ":" in host.name else host.name
        where = f"{host.user}@{bracketed}" if host.user else bracketed
        return ["rsync", "-a", "-s", f"--timeout={RSYNC_SILENCE}", "-e", shlex.join(self.ssh(host)), "./", f"{where}:{self.sync_dst_dir}/"]

    # --- Coming ---

    def gather(self, supervisor):
        for host in self.options.hosts:
            threading.Thread(target=self._bring, args=(host, supervisor.events.put), name=f"ssh {host.name}", daemon=True).start()
        try:
            hosts = self.await_hosts(supervisor, len(self.options.hosts), lambda here: names_missing((label(h) for h in self.options.hosts), here))
        except BaseException:
            self._given_up.set()
            raise
        if isinstance(hosts, list):
            order = {label(host): index for index, host in enumerate(self.options.hosts)}
            hosts.sort(key=lambda host: order[host.name])
        return hosts

    def _bring(self, host, tell):
        try:
            why = self._try_again_and_again(host, tell)
        except OSError as error:
            why = f"could not start {error.filename}: {error.strerror}"
        except Exception as error:  # whoever waits for the host has it
            why = f"{type(error).__name__}: {error}"
        if why is not None:
            tell(Failed(f"host {label(host)}: {why}"))

    def _try_again_and_again(self, host, tell):
        with self._logins:
            for attempt in range(TRIES):
                if attempt and self._given_up.wait(FIRST_PAUSE * 2 ** (attempt - 1)):
                    return None
                why, again = self._try(host, tell)
                if why is None or not again:
                    break
                if self.options.verbose:
                    say(f"host {label(host)}: {why}; trying again")
        return why

    def _try(self, host, tell):
        """(why not, or None; whether to try again)"""
        if self.sync_dst_dir:
            done = subprocess.run(self.rsync(host), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
            if done.returncode != 0:
                said = "; ".join(what_matters(done.stderr.decode(errors="replace").strip().splitlines())[-3:])
                return f"rsync to {self.sync_dst_dir}: {said or f'rsync ended with exit code {done.returncode} and said nothing'}", any(text in said for text in TRY_AGAIN)
        started = threading.Event()
        connection = Connection(self.command(host), lambda text: say(f"host {label(host)}: {text}") if started.is_set() else None)
        self._connections[label(host)] = connection
        try:
            connection.channel.send_bytes(bootstrap.program())
            deadline = time.monotonic() + LOGIN_TIMEOUT
            connection.channel.skip_to_hello(deadline)
            here = connection.channel.receive(deadline)
        except Closed as closed:
            printed = connection.channel.printed().decode(errors="replace").strip()
            connection.close()
            why = connection.why() or str(closed)
            return why + (f"; it printed: {printed[-200:]}" if printed else ""), any(text in why for text in TRY_AGAIN)
        started.set()
        if self.options.verbose:
            say(f"host {label(host)}: its agent is there, {here.get('host')}, which sees this machine at {here.get('launcher')}")
        tell(HostIsHere(RemoteHost(connection.channel, here, lambda lost, why: tell(HostIsLost(lost, connection.why() or why)), label(host))))
        return None, False

    # --- Being there ---

    def places(self, hosts=None):
        return over_hosts(self.job.num_servers, self.job.num_workers, [host.slots for host in self.options.hosts])

    def variables_of(self, index):
        interface = self.options.hosts[index].interface
        return {"DMLC_INTERFACE": interface} if interface else {}

    def children(self):
        return {connection.process.pid for connection in self._connections.values()}

    def cancel(self):
        self._given_up.set()

    # --- Telling ---

    def dry_run(self):
        lines = []
        for host in self.options.hosts:
            if self.sync_dst_dir:
                lines.append(shlex.join(self.rsync(host)))
            lines.append(shlex.join(self.command(host)))
        return [*lines, f"# in {self.job.folder}, by the agents that these bring:",
                *self.processes_by_host([label(host) for host in self.options.hosts], self.places())]


def label(host):
    """How messages call it: as the hostfile does."""
    return host.name if host.port is None else (f"[{host.name}]:{host.port}" if ":" in host.name else f"{host.name}:{host.port}")
