"""Programs that run on this machine, for launch.py itself or for its agent on another host."""
import os
import signal
import subprocess
import threading
from dataclasses import dataclass, field

from . import limits
from .errors import LaunchError, UsageError

LONGEST_LINE = 1 << 20  # bytes; a longer one is cut, as a progress bar that never ends one
ROOM = 16  # descriptors that a start takes for a while
LAST_LINES = 1.0  # seconds to wait for them; what a process has left running may hold its output open for ever


@dataclass
class Spec:
    """What to run. `environment` comes on top of this machine's own. `held`: signals that wait until the program takes them."""
    command: list
    environment: dict
    folder: str = None
    held: list = field(default_factory=list)


class Process:
    def __init__(self, spec, on_line, on_end, kills, pass_fds=()):
        """`on_line(bytes)` and, once, after the last line, `on_end(exit code, who killed it or None)` are called from threads; not
        before follow(). `kills`: limits.MemoryKills of this machine."""
        self._on_line, self._on_end, self._kills = on_line, on_end, kills
        limits.DescriptorRoom.make(ROOM)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, spec.held)  # inherited
        try:
            with limits.start_lock():
                self._popen = subprocess.Popen(spec.command, env={**os.environ, **spec.environment}, cwd=spec.folder,
                                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                               start_new_session=True, pass_fds=pass_fds)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        limits.DescriptorRoom.give_back(self.pid)
        self._reader = threading.Thread(target=self._follow, name="output", daemon=True)
        self._waiter = threading.Thread(target=self._wait, name="end", daemon=True)

    def follow(self):
        try:
            for thread in (self._reader, self._waiter):
                limits.start(thread)
        except RuntimeError as error:  # no thread
            self.signal(signal.SIGKILL)
            raise LaunchError(f"could not watch {self._popen.args[0]}: {limits.in_words(error)}") from error

    @property
    def pid(self):
        return self._popen.pid

    def _follow(self):
        with self._popen.stdout as pipe:
            for line in iter(lambda: pipe.readline(LONGEST_LINE), b""):
                self._on_line(line)

    def _wait(self):
        self._popen.wait()
        self._reader.join(LAST_LINES)
        self._on_end(self._popen.returncode, self._kills.why() if self._popen.returncode == -signal.SIGKILL else None)

    def signal(self, number):
        """To the whole process group."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass


def start(spec, on_line, on_end, kills, pass_fds=()):
    try:
        return Process(spec, on_line, on_end, kills, pass_fds)
    except OSError as error:
        program = spec.command[0]
        if (words := limits.in_words(error)) is not None:
            raise LaunchError(f"could not start {program}: {words}") from error
        missing = " (what its first line names after #!)" if isinstance(error, FileNotFoundError) and os.path.exists(program) else ""
        raise UsageError(f"could not start {program}: {error.strerror}{missing}") from error
    except ValueError as error:  # a NUL in an argument
        raise UsageError(f"could not start {spec.command[0]}: {error}") from error
