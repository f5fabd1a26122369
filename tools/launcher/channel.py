"""Messages between launch.py and an agent over two descriptors: JSON objects, each after its length (4 bytes, big-endian).

Texts hold whatever bytes the system has, as Python's file names do ("surrogateescape"): as UTF-8, whatever the locale at either end.
"""
import json
import os
import select
import struct
import threading
import time

BEAT = 1.0      # seconds between signs of life, each way
SILENCE = 8.0   # without any, the other end is gone; less than PS_HEARTBEAT_TIMEOUT, so that the lost host is blamed
LARGEST = 64 << 20
HELLO = b"\0sluice agent 1\n"  # before an agent's first message: a login shell may print what it likes before


def _mapped(convert, value):
    if isinstance(value, str):
        return convert(value)
    if isinstance(value, dict):
        return {_mapped(convert, name): _mapped(convert, each) for name, each in value.items()}
    return [_mapped(convert, each) for each in value] if isinstance(value, (list, tuple)) else value


def portable(value):
    """Arguments, names of files and the like, which Python decoded as the locale says here, for another machine."""
    return _mapped(lambda text: os.fsencode(text).decode(errors="surrogateescape"), value)


def native(value):
    """The same bytes here, from portable()."""
    return _mapped(lambda text: os.fsdecode(text.encode(errors="surrogateescape")), value)


class Closed(Exception):
    """The other end is gone, and why."""


class Channel:
    """Thread safety: any may send; one receives."""

    def __init__(self, read_end, write_end, close):
        """`close()` ends the connection."""
        self._read_end, self._write_end, self.close = read_end, write_end, close
        self._lock = threading.Lock()
        self._received = b""

    def send(self, message):
        data = json.dumps(message).encode()
        self.send_bytes(struct.pack(">I", len(data)) + data)

    def send_bytes(self, data):
        with self._lock:
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(self._write_end, view):]
            except OSError as error:
                raise Closed(error.strerror) from error

    def receive(self, deadline=None):
        """The next message but beats. `deadline`: of the first byte, by time.monotonic(); else silence ends it."""
        while True:
            size, = struct.unpack(">I", self._take(4, deadline))
            if size > LARGEST:
                raise Closed(f"a message of {size} bytes")
            try:
                message = json.loads(self._take(size, deadline))
            except ValueError as error:
                raise Closed("no message but something else") from error
            if message.get("is") != "beat":
                return message

    def skip_to_hello(self, deadline):
        """What the other end printed before its first message."""
        while HELLO not in self._received:
            if len(self._received) > 1 << 20:
                raise Closed("it prints and prints")
            self._read_more(deadline)
        printed, _, self._received = self._received.partition(HELLO)
        return printed

    def printed(self):
        """What was received and not understood."""
        return self._received

    def _take(self, size, deadline):
        while len(self._received) < size:
            self._read_more(deadline)
        data, self._received = self._received[:size], self._received[size:]
        return data

    def _read_more(self, deadline):
        seconds = SILENCE if deadline is None else max(0.0, deadline - time.monotonic())
        poller = select.poll()
        poller.register(self._read_end, select.POLLIN)
        if not poller.poll(seconds * 1000):
            raise Closed(f"no sign of life within {seconds:.0f} s")
        try:
            chunk = os.read(self._read_end, 1 << 16)
        except OSError as error:
            raise Closed(error.strerror) from error
        if not chunk:
            raise Closed("the connection has ended")
        self._received += chunk


class Beats:
    """Signs of life until stopped, from a thread."""

    def __init__(self, channel):
        self._channel, self._stop = channel, threading.Event()
        threading.Thread(target=self._beat, name="beats", daemon=True).start()

    def _beat(self):
        try:
            while not self._stop.wait(BEAT):
                self._channel.send({"is": "beat"})
        except Closed:
            pass  # whoever receives hears of it

    def stop(self):
        self._stop.set()
