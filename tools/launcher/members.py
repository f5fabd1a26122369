"""The job's processes as launch.py sees them, wherever they run: output goes to the terminal with the name before each line, and to a log."""
import collections
import os
import signal
import sys
import threading

from . import limits, messages
from .echo import Echo, LastWords
from .errors import LaunchError, UsageError

TAIL_LINES = 20
PATIENCE = 5.0  # seconds for a reader of the output to go on


class Output:
    """Where all processes' lines meet; a line is written whole. A reader that has stopped holds up the job for PATIENCE, once: from
    then on lines go to the logs alone, until it reads again."""

    def __init__(self, stream=None):
        self._descriptor = (stream or sys.stdout).fileno()
        self._lock = threading.Lock()
        self._quiet = self._stalled = False
        self._rest = b""  # what has come of a line that is not complete
        self._recent = collections.deque(maxlen=TAIL_LINES)  # that were shown
        self.last_words = LastWords()
        self.incomplete = False  # a line was lost

    def be_quiet(self):
        """From now on processes write to their logs only: what they say while they are stopped alarms for nothing. Waits for nobody."""
        self._quiet = True

    def lines(self, prefix, lines):
        """With nobody's between them."""
        self._write(b"".join(prefix + line + b"\n" for line in lines), lambda seconds: not (self._quiet or self._stalled) and seconds < PATIENCE, lambda: self._quiet)

    def has_just_shown(self, prefix, data):
        """Whether the line is among the last on the terminal."""
        with self._lock:
            return prefix + data + b"\n" in self._recent

    def last_lines(self, prefix, lines):
        """What a process said before it failed, after be_quiet()."""
        for line in lines:
            self._write(prefix + line + b"\n", lambda seconds: not self._stalled and seconds < messages.PATIENCE)

    def _write(self, text, may_wait, is_needless=lambda: False):
        with self._lock:
            if is_needless():
                return
            try:
                if self._rest:
                    self._rest = self._rest[messages.write_while(may_wait, self._descriptor, self._rest):]
                if self._rest:
                    taken = 0  # nothing may come between
                else:
                    taken = messages.write_while(may_wait, self._descriptor, text)
                    self._rest = text[taken:] if taken else b""
            except OSError:
                taken = 0  # the logs go on
            self._stalled = taken < len(text)
            if not self._stalled:
                self._recent.extend(line + b"\n" for line in text.split(b"\n")[:-1])
            self.incomplete |= self._stalled


class Member:
    """A process with a role in the job. Lines and the end come from its host's threads."""

    def __init__(self, role, rank, host, log_dir, output, ended):
        """`ended(member)` is called once."""
        self.role, self.rank, self.host = role, rank, host
        self.name = name_of(role, rank)
        self.tail = collections.deque(maxlen=TAIL_LINES)
        self.returncode = self.killed = None
        self.process = None  # the host's process: it has a pid and takes signals
        self._output, self._ended = output, ended
        self._prefix = f"[{self.name}] ".encode()
        self.echo = Echo(lambda lines: output.lines(self._prefix, lines), output.last_words)
        path = os.path.join(log_dir, self.name.replace(" ", "-") + ".log")
        limits.DescriptorRoom.make(1)
        try:
            self._log = open(path, "wb")
        except OSError as error:
            if (words := limits.in_words(error)) is not None:
                raise LaunchError(f"cannot write the log {path}: {words}") from error
            raise UsageError(f"cannot write the log {path}: {error.strerror}; --log-dir names another folder") from error

    def start(self, spec, **options):
        try:
            self.process = self.host.start(spec, self.take_line, self.end, **options)
        except BaseException:
            self._log.close()
            raise

    def take_line(self, line):
        self._keep(line)
        text = line.rstrip(b"\r\n")
        self.tail.append(text)
        self.echo.take(text)

    def end(self, returncode, why=None):
        """`why`: who killed it, where that is known."""
        self.returncode, self.killed = returncode, why
        self.echo.end(failed=returncode != 0)
        self._ended(self)

    def what_it_said(self):
        """(the end of a sentence, the lines that belong below it): its last words, where they do not stand above already."""
        if not self.tail:
            return "it printed nothing", []
        if self._output.has_just_shown(self._prefix, self.tail[-1]):
            return "its last lines are above", []
        return "its last lines:", list(self.tail)

    def _keep(self, line):
        """In the log; a job goes on without one when the disk is full."""
        if self._log is None:
            return
        try:
            self._log.write(line)
            self._log.flush()
        except (OSError, ValueError) as error:
            self._log = None
            self._output.lines(f"{messages.NAME}: ".encode(), [f"no more log of {self.name}: {error}".encode()])

    def signal(self, number):
        self.process.signal(number)

    def exit_code(self):
        """As a shell would say it: 128 + the signal's number for a signal."""
        return 128 - self.returncode if self.returncode < 0 else self.returncode

    def how_it_ended(self):
        if self.returncode >= 0:
            return f"exit code {self.returncode}"
        try:
            return f"signal {signal.Signals(-self.returncode).name}{f', {self.killed}' if self.killed else ''}"
        except ValueError:
            return f"signal {-self.returncode}"

    def where(self):
        """For messages: (pid 17), (host B, pid 17)."""
        return f"(pid {self.process.pid})" if self.host.is_here else f"(host {self.host.name}, pid {self.process.pid})"


def name_of(role, rank):
    return role if rank is None else f"{role} {rank}"
