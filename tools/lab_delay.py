"""Keeps every packet that comes to this host's eth0 for a while: the distance of hosts whose kernel has no netem.

Run by lab.py on each host. Reads delays from its standard input, a line each, in microseconds, and says "up" after the first; ends
with it. Packets wait in the kernel's queue (https://netfilter.org/projects/libnetfilter_queue): they are not copied, and those of
a large segment stay one. Where nobody reads the queue they pass.
"""
import collections
import ctypes
import os
import select
import socket
import subprocess
import sys
import time

QUEUE, MOST_PACKETS, BUFFER = 0, 65536, 8 << 20
COPY_META, ACCEPT, FAIL_OPEN, GSO = 1, 1, 1, 4  # linux/netfilter.h, linux/netfilter/nfnetlink_queue.h
RULE = ("iptables-legacy", "-A", "INPUT", "-i", "eth0", "-j", "NFQUEUE", "--queue-num", str(QUEUE), "--queue-bypass")


class PacketHeader(ctypes.BigEndianStructure):
    _fields_ = [("id", ctypes.c_uint32), ("protocol", ctypes.c_uint16), ("hook", ctypes.c_uint8)]


class Queue:
    """Packets that wait: on_packet(id) hears of each, accept(id) lets it through."""

    def __init__(self, on_packet):
        self.library = ctypes.CDLL("libnetfilter_queue.so.1", use_errno=True)
        pointer, callback = ctypes.c_void_p, ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
        self.library.nfq_get_msg_packet_hdr.restype = ctypes.POINTER(PacketHeader)
        self.library.nfq_get_msg_packet_hdr.argtypes = [pointer]
        for name, result, *arguments in (("nfq_open", pointer), ("nfq_create_queue", pointer, pointer, ctypes.c_uint16, callback, pointer),
                                         ("nfq_set_mode", ctypes.c_int, pointer, ctypes.c_uint8, ctypes.c_uint),
                                         ("nfq_set_queue_maxlen", ctypes.c_int, pointer, ctypes.c_uint32),
                                         ("nfq_set_queue_flags", ctypes.c_int, pointer, ctypes.c_uint32, ctypes.c_uint32),
                                         ("nfq_fd", ctypes.c_int, pointer),
                                         ("nfq_handle_packet", ctypes.c_int, pointer, ctypes.c_char_p, ctypes.c_int),
                                         ("nfq_set_verdict", ctypes.c_int, pointer, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32, pointer)):
            function = getattr(self.library, name)
            function.restype, function.argtypes = result, arguments

        def hear(_, __, packet, ___):
            on_packet(self.library.nfq_get_msg_packet_hdr(packet).contents.id)
            return 0

        self.callback = callback(hear)  # kept: the library calls it
        self.handle = self.of(self.library.nfq_open())
        self.queue = self.of(self.library.nfq_create_queue(self.handle, QUEUE, self.callback, None))
        self.library.nfq_set_mode(self.queue, COPY_META, 0)
        self.library.nfq_set_queue_maxlen(self.queue, MOST_PACKETS)
        self.library.nfq_set_queue_flags(self.queue, GSO | FAIL_OPEN, GSO | FAIL_OPEN)
        self.socket = socket.socket(fileno=os.dup(self.library.nfq_fd(self.handle)))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        self.socket.setblocking(False)

    @staticmethod
    def of(result):
        if not result:
            number = ctypes.get_errno()
            raise OSError(number, f"no queue of packets: {os.strerror(number)}")
        return result

    def read(self):
        try:
            while True:
                message = self.socket.recv(1 << 16)
                self.library.nfq_handle_packet(self.handle, message, len(message))
        except BlockingIOError:
            pass

    def accept(self, packet):
        self.library.nfq_set_verdict(self.queue, packet, ACCEPT, 0, None)


def main():
    delay, waiting = 0.0, collections.deque()  # seconds; (due, packet)
    queue = Queue(lambda packet: waiting.append((time.monotonic() + delay, packet)))
    subprocess.run(RULE, check=True)
    said = False
    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        readable, _, _ = select.select([queue.socket, sys.stdin], [], [], timeout)
        if queue.socket in readable:
            queue.read()
        if sys.stdin in readable:
            line = sys.stdin.readline()
            if not line:
                return
            delay = float(line) * 1e-6
            if not said:
                print("up", flush=True)
            said = True
        while waiting and waiting[0][0] <= time.monotonic():
            queue.accept(waiting.popleft()[1])


if __name__ == "__main__":
    main()
