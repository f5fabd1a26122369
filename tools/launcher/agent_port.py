"""Where agents call that a batch system or mpirun has started: a port of launch.py's, open to who has the job's token.

Both ends prove that they have it, and neither shows it (challenge and response, HMAC with SHA-256: RFC 2104). What follows travels as it
is, as the job's own messages do.
"""
import contextlib
import hmac
import os
import secrets
import socket
import threading
import time

from . import addresses
from .channel import Channel, Closed
from .errors import UsageError
from .messages import NAME

TOKEN = "SLUICE_LAUNCH_TOKEN"
NONCE = 32             # bytes
HANDSHAKE = 5.0        # seconds
UNAUTHENTICATED = 64         # connections at once; more are closed
CALL_DEADLINE = 30.0   # seconds until somebody must have answered an agent
CONNECT_TIMEOUT = 3.0
RETRY = 0.1            # after a connection that could not be accepted


def new_token():
    return secrets.token_hex(32)


def read_token(path=None):
    if path is None:
        return os.environ.pop(TOKEN)
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def proof(token, who, mine, theirs):
    return hmac.digest(token.encode(), who + mine + theirs, "sha256")


def take(connection, size, deadline):
    data = b""
    while len(data) < size:
        connection.settimeout(max(0.01, deadline - time.monotonic()))  # in all: an unauthenticated peer may send a byte now and then
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise OSError("it hung up")
        data += chunk
    return data


def channel_of(connection):
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close():
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()
    return Channel(connection.fileno(), connection.fileno(), close)


def listen(port):
    """On all addresses of this machine."""
    try:
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
    except (OSError, ValueError):  # a machine without IPv6, or a port in use
        pass
    try:
        return socket.create_server(("", port), backlog=1024)
    except OSError as error:
        raise UsageError(f"--agent-port is {port}, where {NAME} cannot listen: {os.strerror(error.errno)}; choose another") from error


class AgentPort:
    def __init__(self, token, on_agent, host_ip=None, interface=None, port=0):
        """`on_agent(channel, here)` is called from threads. `port`: 0 is any free one."""
        self._token, self._on_agent = token, on_agent
        self._unauthenticated, self._closed = threading.Semaphore(UNAUTHENTICATED), threading.Event()
        self._listener = listen(port)
        port = self._listener.getsockname()[1]
        self.addresses = [addresses.with_port(address, port) for address in addresses.own(host_ip, interface)]
        threading.Thread(target=self._accept, name="agent port", daemon=True).start()

    def close(self):
        self._closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        while not self._closed.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:  # this one is gone again, or there is no descriptor for it now
                self._closed.wait(RETRY)
                continue
            if self._unauthenticated.acquire(blocking=False):
                threading.Thread(target=self._welcome, args=(connection,), name="caller", daemon=True).start()
            else:
                connection.close()

    def _welcome(self, connection):
        try:
            deadline = time.monotonic() + HANDSHAKE
            connection.settimeout(HANDSHAKE)
            mine = secrets.token_bytes(NONCE)
            connection.sendall(mine)
            theirs, shown = take(connection, NONCE, deadline), take(connection, 32, deadline)
            if not hmac.compare_digest(shown, proof(self._token, b"agent", theirs, mine)):
                raise OSError("it has not this job's token")
            connection.sendall(proof(self._token, b"launch", mine, theirs))
            channel = channel_of(connection)
            channel.skip_to_hello(deadline)
            here = channel.receive(deadline)
        except (OSError, Closed, ValueError):
            connection.close()
            return
        finally:
            self._unauthenticated.release()
        self._on_agent(channel, here)


def call(addresses_of_launch, token):
    """The agent's end. Raises SystemExit where nobody answers."""
    end, why = time.monotonic() + CALL_DEADLINE, "nobody was tried"
    while time.monotonic() < end:
        for address in addresses_of_launch:
            try:
                return call_one(*addresses.split_port(address), token)
            except (OSError, ValueError) as error:
                why = f"{address}: {error}"
        time.sleep(0.5)
    raise SystemExit(f"agent on {socket.gethostname()}: launch.py cannot be reached: {why}; --host-ip names an address of its machine that can")


def call_one(host, port, token):
    connection = socket.create_connection((host, port), CONNECT_TIMEOUT)
    try:
        deadline = time.monotonic() + HANDSHAKE
        theirs, mine = take(connection, NONCE, deadline), secrets.token_bytes(NONCE)
        connection.sendall(mine + proof(token, b"agent", mine, theirs))
        if not hmac.compare_digest(take(connection, 32, deadline), proof(token, b"launch", theirs, mine)):
            raise OSError("somebody else listens there")
    except BaseException:
        connection.close()
        raise
    channel = channel_of(connection)
    channel.launcher_address, channel.connection = host, connection
    return channel
