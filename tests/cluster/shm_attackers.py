"""Peers that send to the rendezvous of shared memory (docs/design/shm.md) what no worker sends: tokens, descriptors and
records by hand, and the messages that name them (proto/envelope.proto)."""
import array
import contextlib
import fcntl
import mmap
import os
import socket
import struct

from attackers import join

MIB = 1 << 20
LEASE_RETURNS_BYTES = 8 + 8192 * 16             # transport/shm/lease_returns.h
LEASE_RETURNS, SEGMENT, SEGMENT_GONE = 1, 2, 3  # kinds of records, transport/shm/memory_link.h
GET_MEMORY, MEMORY_OFFER, PUSH = 43, 44, 25  # fields of Envelope
WORKER = 3
PATIENCE = 20


# --- Messages ---

def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def field(number, content):
    """An int as a varint, bytes as they are."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def fields(message):
    """{number: value} of a protobuf message; the last one of each."""
    found, at = {}, 0

    def read_varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = read_varint()
        if key & 7 == 0:
            found[key >> 3] = read_varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or read_varint()
        found[key >> 3] = message[at:at + size]
        at += size
    return found


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value


def envelope(job, number, body=b"", leases=()):
    """`leases`: (lease, segment, offset, length) of each frame that stays where it is."""
    sender = field(1, WORKER) + field(2, 0) + b"\x19" + os.urandom(8)
    head = b"\x0d" + struct.pack("<I", 1) + b"\x11" + struct.pack("<Q", fnv1a(job)) + field(3, sender) + field(4, 1)
    frames = b"".join(field(9, b"".join(field(i, value) for i, value in enumerate((index, *each), 1))) for index, each in enumerate(leases))
    return head + frames + field(number, body)


def frame(content):
    return (b"\x00" + bytes([len(content)]) if len(content) < 256 else b"\x02" + struct.pack(">Q", len(content))) + content


class Member:
    """A connection of somebody who has the job's secret."""

    def __init__(self, port, job, secret):
        self.job = job
        self.connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        try:
            join(self.connection, job, secret, identity=b"m" + os.urandom(7))
        except BaseException:
            self.connection.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def send(self, *arguments, **more):
        """Unless the server has hung up, on what was sent before."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.sendall(frame(envelope(self.job, *arguments, **more)))

    def offer(self):
        """Returns the rendezvous's name and a token."""
        self.send(GET_MEMORY)
        while True:
            found = fields(self._next_message())
            if MEMORY_OFFER in found:
                offer = fields(found[MEMORY_OFFER])
                return offer[1], offer[2]

    def _next_message(self):
        while True:
            flags, = self._read(1)
            size = struct.unpack(">Q", self._read(8))[0] if flags & 2 else self._read(1)[0]
            content = self._read(size)
            if not flags & 4:  # no command
                return content

    def _read(self, size):
        content = b""
        while len(content) < size:
            heard = self.connection.recv(size - len(content))
            if not heard:
                raise ConnectionError("hung up")
            content += heard
        return content


# --- Memory and the rendezvous ---

def memory(size, seals=fcntl.F_SEAL_SHRINK):
    descriptor = os.memfd_create("attack", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    if seals:
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def with_descriptors(descriptors):
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]


class Link:
    """What a request gets: one end of a pair, and whatever the server says there."""

    def __init__(self, rendezvous, token, descriptors=()):
        """`descriptors`: beside the pair's other end. The rendezvous may have no room for a moment."""
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(PATIENCE)
        with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(PATIENCE)
            sender.sendmsg([token], with_descriptors([theirs.fileno(), *descriptors]), 0, b"\0" + rendezvous)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def say(self, kind, segment=0, descriptor=None):
        self.socket.sendmsg([struct.pack("<IIQ", kind, 0, segment)], with_descriptors([descriptor]) if descriptor is not None else [])

    def hear(self):
        """The kind of the next record and its descriptors, which are closed; None when the other end has hung up."""
        try:
            record, descriptors, *_ = socket.recv_fds(self.socket, 64, 8)
        except ConnectionResetError:  # it had not read all
            return None
        for descriptor in descriptors:
            os.close(descriptor)
        return (struct.unpack("<IIQ", record)[0], len(descriptors)) if record else None


def write_lies(returns):
    """Writes returns of leases that nobody had, without end."""
    with mmap.mmap(returns, LEASE_RETURNS_BYTES) as content:
        content[:8] = struct.pack("<Q", 1 << 63)
        for i in range(8192):
            content[8 + 16 * i:24 + 16 * i] = struct.pack("<QQ", i % 50 + 1, i + 1)
