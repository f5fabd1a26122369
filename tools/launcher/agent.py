"""launch.py's hand on another host: runs processes at its word, and leaves nothing of them when the word no longer comes.

It is two processes, as launch.py is (docs/design/launching.md): either outlives a kill -9 of the other and cleans up. Comes to the host
through ssh, its modules with it (bootstrap.py), or is started there from a shared folder and calls launch.py (agent_port.py).
"""
import argparse
import os
import pathlib
import queue
import signal
import socket
import sys
import threading
import time

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    __package__ = "launcher"
    from launcher import python_version  # noqa: F401 before anything else

from . import channel, descendants, limits, processes, programs
from .errors import LaunchError, UsageError


SAME_SIGNAL = 2.0  # seconds: a batch system signals all processes, and these each other


class Agent:
    def __init__(self, connection):
        self._connection = connection
        self._asked = None  # when
        self._processes = {}
        self._starting = threading.Lock()  # whose end is whose is known only after
        self._ends = queue.SimpleQueue()
        self._kills = limits.MemoryKills()

    def serve(self, here):
        """Until launch.py says so or is gone."""
        try:
            self._connection.send_bytes(channel.HELLO)
            self._connection.send({"is": "here", "host": socket.gethostname(), "boot": boot(), **here})
            channel.Beats(self._connection)
            signal.signal(signal.SIGCHLD, lambda *_: self._ends.put(None))
            limits.start(threading.Thread(target=self._reap_orphans, name="orphans", daemon=True))
            while True:
                message = self._connection.receive()
                if message["do"] == "end":
                    break
                self._obey(message)
        except channel.Closed:
            pass
        left = not descendants.kill_all()
        try:
            self._connection.send({"is": "answer", "left": True, "some": left})
        except channel.Closed:
            pass

    def ask(self, number):
        """A batch system wants an end: launch.py is told, and lets the workers end in good order. Asked again, everything ends here. In a
        signal's handler."""
        now = time.monotonic()
        if self._asked is None:
            self._asked = now
            asked = {"is": "asked", "signal": signal.SIGINT if number == signal.SIGINT else signal.SIGTERM}
            limits.start(threading.Thread(target=self._tell, args=(asked,), daemon=True))
        elif now > self._asked + SAME_SIGNAL:
            leave(128 + number)

    def _reap_orphans(self):
        while True:
            self._ends.get()
            with self._starting:
                descendants.reap_orphans({process.pid for process in self._processes.values()})

    def _obey(self, message):
        if message["do"] == "signal":
            process = self._processes.get(message["number"])
            if process is not None:
                process.signal(message["signal"])
            return
        try:
            answer = self._find(message) if message["do"] == "find" else self._start(message)
        except (UsageError, LaunchError) as error:
            answer = {"refused": str(error)}
        self._connection.send({"is": "answer", **answer})
        if "pid" in answer:
            self._processes[message["number"]].follow()

    def _find(self, message):
        wanted = [programs.Program(**each) for each in channel.native(message["programs"])]
        return {"commands": channel.portable(programs.find_all(wanted, channel.native(message["folder"])))}

    def _start(self, message):
        number = message["number"]
        with self._starting:
            process = processes.start(processes.Spec(**channel.native(message["spec"])), lambda line: self._tell({"is": "line", "number": number, "text": line.decode(errors="surrogateescape")}),
                                      lambda code, why: self._tell({"is": "ended", "number": number, "code": code, "why": why}), self._kills)
            self._processes[number] = process
        return {"pid": process.pid}

    def _tell(self, message):
        try:
            self._connection.send(message)
        except channel.Closed:
            pass  # serve() hears of it


def run(connect, here, grace=False):
    """The exit code. `connect()`: a Channel, or an exception that says why there is none. With `grace`, signals to end are launch.py's to
    obey."""
    asks = [signal.SIGINT, signal.SIGTERM, signal.SIGUSR2] if grace else []
    if grace:
        signal.signal(signal.SIGUSR1, lambda *_: None)  # Grid Engine, before it suspends
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    descendants.adopt_orphans()
    read_end, write_end = os.pipe()  # held open by the guard
    worker = os.fork()
    if worker == 0:
        os.setsid()  # MPICH's mpirun kills whole groups
        os.close(write_end)
        descendants.adopt_orphans()
        limits.start(threading.Thread(target=end_with_guard, args=(read_end,), name="guard", daemon=True))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda n, _: leave(128 + n))
        connection = connect()
        agent = Agent(connection)
        for number in asks:
            signal.signal(number, lambda n, _: agent.ask(n))
        agent.serve(here(connection))
        leave(0)
    for descriptor in (0, 1, read_end):
        os.close(descriptor)  # the connection ends with the worker
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, *asks):
        signal.signal(number, lambda n, _: os.kill(worker, n))
    _, status = os.waitpid(worker, 0)
    descendants.kill_all()
    return os.waitstatus_to_exitcode(status)


def boot():
    """Tells machines apart that are called the same."""
    try:
        return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def leave(code):
    descendants.kill_all()
    os._exit(code)


def end_with_guard(read_end):
    while os.read(read_end, 64):
        pass
    leave(128 + signal.SIGKILL)


def through_standard_streams():
    """The connection that ssh made: what else prints goes elsewhere."""
    read_end, write_end = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return channel.Channel(read_end, write_end, lambda: None)


def by_ssh():
    client = os.environ.get("SSH_CONNECTION", "").split()
    return run(through_standard_streams, lambda _: {"launcher": client[0]} if client else {})


def main(arguments):
    from . import agent_port  # not where ssh brought this
    parser = argparse.ArgumentParser(prog="agent.py", description="Started by launch.py's launchers, not by hand.")
    parser.add_argument("--call", required=True, metavar="ADDRESS,...", help="where launch.py listens")
    parser.add_argument("--role", help="for what it was placed here")
    parser.add_argument("--token-file", help="where the secret of the connection is, if not in the environment")
    parser.add_argument("--grace", action="store_true", help="signals to end are launch.py's to obey")
    args = parser.parse_args(arguments)
    token = agent_port.read_token(args.token_file)
    return run(lambda: agent_port.call(args.call.split(","), token),
               lambda connection: {"role": args.role, "launcher": connection.launcher_address}, args.grace)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
