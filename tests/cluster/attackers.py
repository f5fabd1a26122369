"""Those who write what they like to a port: https://rfc.zeromq.org/spec/23/ (ZMTP) and /24/ (PLAIN) by hand."""
import os
import socket
import threading

MIB = 1 << 20
MORE_EMPTY = b"\x01\x00" * (MIB // 2)                        # frames without content, each with MORE
MORE_255 = (b"\x01\xff" + b"x" * 255) * 4080                 # frames of 255 bytes
LONG_COMMAND = b"\x06" + (1900 << 10).to_bytes(8, "big")    # announces 1.9 MB, which every port would take


def greeting(mechanism):
    return b"\xff" + b"\0" * 8 + b"\x7f\x03\x00" + mechanism.encode().ljust(20, b"\0") + b"\0" * 32


def text(value):
    return bytes([len(value)]) + value


def command(body):
    return b"\x04" + text(body)


def hello(user, password):
    return greeting("PLAIN") + command(text(b"HELLO") + text(user.encode()) + text(password.encode()))


def join(connection, job, secret, identity=b"attacker"):
    """All that a DEALER of this job says before its first message. `identity`: 8 bytes, the first one not zero."""
    connection.sendall(hello(f"job:{job}", f"secret:{secret}"))
    left = 64 + len(command(text(b"WELCOME")))
    while left > 0:
        heard = connection.recv(left)
        if not heard:
            raise ConnectionError("not welcome")
        left -= len(heard)
    connection.sendall(command(text(b"INITIATE") + text(b"Socket-Type") + (6).to_bytes(4, "big") + b"DEALER"
                               + text(b"Identity") + len(identity).to_bytes(4, "big") + identity))


def come_and_go(port, job, secret, times):
    """A member that comes as somebody new each time, says something and leaves."""
    for _ in range(times):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            join(connection, job, secret, identity=b"n" + os.urandom(7))
            connection.sendall(b"\x00\x01x")


class Attackers:
    """Threads that attack every port, each in its own way, from entering the context to leaving it."""

    SHORT = (
        lambda: os.urandom(4096),
        lambda: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        lambda: greeting("NULL") + b"\x02" + (1 << 62).to_bytes(8, "big"),         # claims 2^62 bytes
        lambda: greeting("PLAIN") + b"\x06" + (2**64 - 1).to_bytes(8, "big"),
        lambda: greeting("PLAIN") + b"\x04\x02\x05H",                                # a command cut short
    )
    ENDLESS = (
        (b"\x01\x00", MORE_EMPTY),                                                   # ZMTP 1.0
        (greeting("NULL"), MORE_255),
        (greeting("PLAIN"), MORE_EMPTY),
        (hello("job:other", "secret:none"), MORE_255),
        (greeting("PLAIN") + LONG_COMMAND, b"x" * (MIB // 2)),
    )

    def __init__(self, ports, job, secret):
        self.job, self.secret = job, secret
        self.stop = threading.Event()
        self.sent = {"short": 0, "unauthenticated": 0, "member": 0}   # connections made
        self.threads = [threading.Thread(target=self._repeat, args=(attack, port), daemon=True)
                        for port in ports for attack in (self._short, self._unauthenticated, self._member)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join(20)

    def _repeat(self, attack, port):
        turn = 0
        while not self.stop.is_set():
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
                    attack(connection, turn)
            except OSError:
                self.stop.wait(0.1)   # refused, or cut: that is what it came for
            turn += 1

    def _short(self, connection, turn):
        connection.sendall(self.SHORT[turn % len(self.SHORT)]())
        self.sent["short"] += 1
        connection.settimeout(0.05)
        connection.recv(64)

    def _unauthenticated(self, connection, turn):
        opening, block = self.ENDLESS[turn % len(self.ENDLESS)]
        connection.sendall(opening)
        self.sent["unauthenticated"] += 1
        self._stream(connection, block)

    def _member(self, connection, turn):
        join(connection, self.job, self.secret)
        connection.sendall(b"\x00\x01x")   # a whole message, of nonsense: it counts as one that brought a message
        self.sent["member"] += 1
        self._stream(connection, (MORE_EMPTY, MORE_255)[turn % 2])

    def _stream(self, connection, block):
        """Without end."""
        while not self.stop.is_set():
            connection.sendall(block)
