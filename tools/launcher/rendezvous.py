"""What the scheduler tells launch.py through the pipe of SLUICE_PORT_FD: its port, who joins, that it waits, that all are there."""
import os
import select
import threading
import time

from . import limits

NAMES = 8  # so many are named, the others counted


def listed(names):
    names = list(names)
    more = len(names) - NAMES
    return ", ".join(names[:NAMES] if more > 1 else names) + (f" and {more} more" if more > 1 else "")


class Rendezvous:
    def __init__(self, wake):
        """`wake()` is called from a thread when there is something to read()."""
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._text, self._wake, self._may_go_on = b"", wake, threading.Semaphore(0)
        self.port, self.complete, self.waiting, self._is_over = None, False, False, False
        self.joined = set()  # names of members

    def scheduler_has_started(self):
        """It alone holds the pipe's other end now."""
        os.close(self.write_end)

    def await_port(self, deadline, is_over):
        """True once it is known; False at the deadline, or when `is_over()`."""
        poller = select.poll()
        poller.register(self._read_end, select.POLLIN)
        while self.port is None and not is_over() and time.monotonic() < deadline:
            if poller.poll(200) and not self.read():
                return False
        if self.port is not None:
            limits.start(threading.Thread(target=self._watch, name="rendezvous", daemon=True))
        return self.port is not None

    def read(self):
        """Takes what has come. False at its end."""
        try:
            chunk = os.read(self._read_end, 1 << 16)
        except BlockingIOError:
            chunk = None
        *lines, self._text = (self._text + (chunk or b"")).split(b"\n")
        for line in lines:
            self._take(line.decode(errors="replace"))
        self._is_over = chunk == b""
        self._may_go_on.release()
        return not self._is_over

    def _take(self, line):
        if self.port is None:
            self.port = int(line)
        elif line == "complete":
            self.complete, self.waiting = True, False
        elif line == "waiting":
            self.waiting = True
        elif line.startswith("joined "):
            self.joined.add(line.removeprefix("joined "))

    def _watch(self):
        poller = select.poll()
        poller.register(self._read_end, select.POLLIN)
        while True:
            poller.poll()
            self._wake()
            self._may_go_on.acquire()
            if self.complete or self._is_over:
                return

    def report(self, members):
        """Who has joined, who has not, and from where it should come."""
        self.waiting = False
        missing = [member for member in members if member.name not in self.joined]
        here = listed(member.name for member in members if member.name in self.joined)
        where = listed(member.name + ("" if member.host.is_here else f" (host {member.host.name})") for member in missing)
        return f"{len(members) - len(missing)} of {len(members)} have joined" + (f": {here}" if here else "") + f"; still missing: {where}"
