"""The job's processes as launch.py sees them, wherever they run: output goes to the terminal with the name before each line, and to a log."""
import collections
import os
import signal
import sys
import threading

from .errors import UsageError

TAIL_LINES = 20


class Output:
    """Where all processes' lines meet; a line is written whole."""

    def __init__(self, stream=None):
        self._stream = stream or sys.stdout.buffer
        self._lock = threading.Lock()
        self._quiet = False
        self.incomplete = False  # a line was lost

    def be_quiet(self):
        """From now on processes write to their logs only: what they say while they are stopped alarms for nothing."""
        with self._lock:
            self._quiet = True

    def line(self, prefix, data):
        with self._lock:
            if self._quiet:
                return
            try:
                self._stream.write(prefix + data + b"\n")
                self._stream.flush()
            except (OSError, ValueError):
                self.incomplete = True  # the logs go on


class Member:
    """A process with a role in the job. Lines and the end come from its host's threads."""

    def __init__(self, role, rank, host, log_dir, output, ended):
        """`ended(member)` is called once."""
        self.role, self.rank, self.host = role, rank, host
        self.name = name_of(role, rank)
        self.tail = collections.deque(maxlen=TAIL_LINES)
        self.returncode = None
        self.process = None  # of the host: has a pid and takes signals
        self._output, self._ended = output, ended
        self._prefix = f"[{self.name}] ".encode()
        path = os.path.join(log_dir, self.name.replace(" ", "-") + ".log")
        try:
            self._log = open(path, "wb")
        except OSError as error:
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
        self._output.line(self._prefix, text)

    def end(self, returncode):
        self.returncode = returncode
        self._ended(self)

    def _keep(self, line):
        """In the log; a job goes on without one when the disk is full."""
        if self._log is None:
            return
        try:
            self._log.write(line)
            self._log.flush()
        except (OSError, ValueError) as error:
            self._log = None
            self._output.line(b"launch.py: ", f"no more log of {self.name}: {error}".encode())

    def signal(self, number):
        self.process.signal(number)

    def exit_code(self):
        """As a shell would say it: 128 + the signal's number for a signal."""
        return 128 - self.returncode if self.returncode < 0 else self.returncode

    def how_it_ended(self):
        if self.returncode >= 0:
            return f"exit code {self.returncode}"
        try:
            return f"signal {signal.Signals(-self.returncode).name}"
        except ValueError:
            return f"signal {-self.returncode}"

    def where(self):
        """For messages: (pid 17), (host B, pid 17)."""
        return f"(pid {self.process.pid})" if self.host.is_here else f"(host {self.host.name}, pid {self.process.pid})"


def name_of(role, rank):
    return role if rank is None else f"{role} {rank}"
