"""One process of a job: its output goes to the terminal with its name before each line, and to its log."""
import collections
import os
import signal
import subprocess
import sys
import threading

from .errors import UsageError

TAIL_LINES = 20
LAST_LINES = 1.0  # seconds to wait for them; what a process has left running may hold its output open for ever


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


class Process:
    def __init__(self, role, rank, command, environment, log_dir, output, ended, pass_fds=(), held=()):
        """`ended(process)` is called from a thread, once, after the process's last line. `held`: signals that wait until it takes them."""
        self.role, self.rank = role, rank
        self.name = role if rank is None else f"{role} {rank}"
        self.tail = collections.deque(maxlen=TAIL_LINES)
        self._output, self._ended = output, ended
        path = os.path.join(log_dir, self.name.replace(" ", "-") + ".log")
        try:
            self._log = open(path, "wb")
        except OSError as error:
            raise UsageError(f"cannot write the log {path}: {error.strerror}; --log-dir names another folder") from error
        try:
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, held)  # inherited
            try:
                self._popen = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                               stderr=subprocess.STDOUT, start_new_session=True, pass_fds=pass_fds)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        except OSError:
            self._log.close()
            raise
        self._reader = threading.Thread(target=self._follow, name=f"output of {self.name}", daemon=True)
        self._waiter = threading.Thread(target=self._wait, name=f"end of {self.name}", daemon=True)

    def follow(self):
        self._reader.start()
        self._waiter.start()

    @property
    def pid(self):
        return self._popen.pid

    @property
    def returncode(self):
        return self._popen.returncode

    def _follow(self):
        prefix = f"[{self.name}] ".encode()
        try:
            with self._popen.stdout as pipe:
                for line in pipe:
                    self._keep(line)
                    text = line.rstrip(b"\r\n")
                    self.tail.append(text)
                    self._output.line(prefix, text)
        finally:
            if self._log is not None:
                self._log.close()

    def _wait(self):
        self._popen.wait()
        self._reader.join(LAST_LINES)
        self._ended(self)

    def _keep(self, line):
        """In the log; a job goes on without one when the disk is full."""
        if self._log is None:
            return
        try:
            self._log.write(line)
            self._log.flush()
        except OSError as error:
            self._log = None
            self._output.line(b"launch.py: ", f"no more log of {self.name}: {error}".encode())

    def signal(self, number):
        """To the whole process group."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

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
