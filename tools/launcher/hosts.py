"""Where processes run: this machine, or another one through an agent there. Both do the same things."""
import queue
import signal
import socket
import threading
import time
from dataclasses import asdict

from . import limits, processes, programs
from .channel import Beats, Closed, native, portable
from .errors import Interrupted, LaunchError, UsageError

ANSWER_DEADLINE = 30.0  # seconds for an agent to find or start a program
FAREWELL = 5.0          # for it to end what it started


class LocalHost:
    is_here = True

    def __init__(self):
        self.name = self.hostname = self.machine = socket.gethostname()
        self._kills = limits.MemoryKills()

    def find(self, wanted, folder):
        """Commands with full paths."""
        return programs.find_all(wanted, folder)

    def start(self, spec, on_line, on_end, pass_fds=()):
        """A started process: has a `pid`, takes `signal(number)`."""
        process = processes.start(spec, on_line, on_end, self._kills, pass_fds)
        process.follow()
        return process

    def end(self):
        """Whatever was started here is killed."""


class RemoteProcess:
    def __init__(self, host, number, on_line, on_end):
        self.host, self.number, self.pid = host, number, None
        self.on_line, self.on_end = on_line, on_end

    def signal(self, number):
        self.host.tell({"do": "signal", "number": self.number, "signal": int(number)})


class RemoteHost:
    is_here = False

    def __init__(self, channel, here, on_lost, name=None, on_asked=None):
        """`here`: what the agent said first. `on_lost(host, why)` is called from a thread, once, unless end() came before, and
        `on_asked(number)` once the agent was asked to end by a signal and leaves that to launch.py."""
        self.name = name or here["host"]
        self.launcher_address = here.get("launcher")  # this machine's address, as the host sees it
        self.hostname, self.role = here["host"], here.get("role")
        self.machine = self.hostname, here.get("boot")
        self._channel, self._on_lost, self._on_asked = channel, on_lost, on_asked
        self._lock = threading.Lock()
        self._processes, self._answers, self._ending = {}, queue.SimpleQueue(), False
        self._beats = Beats(channel)
        limits.start(threading.Thread(target=self._receive, name=f"host {self.name}", daemon=True))

    # --- Called by the supervisor ---

    def find(self, wanted, folder):
        answer = self._ask({"do": "find", "programs": portable([asdict(program) for program in wanted]), "folder": portable(folder)})
        return native(answer["commands"])

    def start(self, spec, on_line, on_end, pass_fds=()):
        assert not pass_fds, "descriptors do not travel"
        with self._lock:
            process = RemoteProcess(self, len(self._processes), on_line, on_end)
            self._processes[process.number] = process
        spec.held = [int(number) for number in spec.held]
        process.pid = self._ask({"do": "start", "number": process.number, "spec": portable(asdict(spec))})["pid"]
        return process

    def interrupt(self):
        """Whoever waits for an answer waits no longer (Interrupted). Called by signal handlers, too."""
        self._answers.put({"interrupted": True})

    def tell(self, message):
        try:
            self._channel.send(message)
        except Closed:
            pass  # whoever receives hears of it

    def begin_to_end(self):
        self._ending = True
        self.tell({"do": "end"})

    def end(self, deadline=None):
        """After begin_to_end(): until the agent has killed whatever it started, or the deadline."""
        deadline = deadline or time.monotonic() + FAREWELL
        try:
            while not self._answers.get(timeout=max(0.01, deadline - time.monotonic())).get("left"):
                pass
        except queue.Empty:
            pass
        self._beats.stop()
        self._channel.close()

    def _ask(self, message):
        self.tell(message)
        try:
            answer = self._answers.get(timeout=ANSWER_DEADLINE)
        except queue.Empty:
            raise LaunchError(f"host {self.name} did not answer within {ANSWER_DEADLINE:.0f} s") from None
        if "interrupted" in answer:
            raise Interrupted
        if "refused" in answer:
            raise UsageError(f"host {self.name}: {answer['refused']}")
        if "lost" in answer:
            self._answers.put(answer)
            raise LaunchError(f"host {self.name} was lost: {answer['lost']}")
        return answer

    # --- A thread of its own ---

    def _receive(self):
        try:
            while True:
                self._take(self._channel.receive())
        except (Closed, KeyError, TypeError, AttributeError, ValueError) as error:
            self._answers.put({"lost": str(error), "left": True})
            if not self._ending:
                self._on_lost(self, str(error))

    def _take(self, message):
        kind = message["is"]
        if kind == "line":
            self._processes[message["number"]].on_line(message["text"].encode(errors="surrogateescape"))
        elif kind == "ended":
            self._processes[message["number"]].on_end(message["code"], message.get("why"))
        elif kind == "answer":
            self._answers.put(message)
        elif kind == "asked" and self._on_asked is not None:
            self._on_asked(int(message["signal"]))
        else:
            raise ValueError(f"the agent says '{kind}', which this version does not know")
