"""What tools/launcher exchanges with others: agents, intruders, programs that submit jobs, whoever reads its output."""
import contextlib
import errno
import io
import itertools
import os
import pathlib
import select
import shutil
import socket
import struct
import sys
import threading
import time
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from launcher import addresses, agent_port, bootstrap, channel, events, hosts, members, supervisor  # noqa: E402
from launcher.errors import Interrupted, UsageError  # noqa: E402
from launcher.launchers import tools  # noqa: E402


class NobodyReads(unittest.TestCase):
    """As a pager that waits for a key, or a terminal after Ctrl-S."""

    def setUp(self):
        self.read_end, write_end = os.pipe()
        self.stream = open(write_end, "wb", buffering=0)
        self.addCleanup(self.stream.close)
        self.addCleanup(os.close, self.read_end)
        self.output = members.Output(self.stream)

    def fill(self):
        os.set_blocking(self.stream.fileno(), False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.stream.write(b"x" * 4096) or self.fail("no bytes")
                if not select.select([], [self.stream], [], 0)[1]:
                    break
        os.set_blocking(self.stream.fileno(), True)

    def test_a_line_that_waits_gives_way_to_the_end(self):
        self.fill()
        writer = threading.Thread(target=self.output.lines, args=(b"[a] ", [b"line"]), daemon=True)
        writer.start()
        self.output.be_quiet()
        writer.join(members.PATIENCE / 2)
        self.assertFalse(writer.is_alive())

    def test_lines_are_left_out_until_the_reader_goes_on(self):
        self.fill()
        with mock.patch.object(members, "PATIENCE", 0.2):
            for _ in range(50):  # waited for once
                self.output.lines(b"[a] ", [b"lost"])
        self.assertTrue(self.output.incomplete)
        while select.select([self.read_end], [], [], 0)[0]:
            os.read(self.read_end, 1 << 16)
        self.output.lines(b"[a] ", [b"heard"])
        self.assertEqual(os.read(self.read_end, 100), b"[a] heard\n")

    def test_a_line_that_was_begun_is_ended_before_the_next(self):
        line = b"y" * (1 << 20)
        with mock.patch.object(members, "PATIENCE", 0.2):
            self.output.lines(b"", [line])
        got = b""
        while select.select([self.read_end], [], [], 0)[0]:
            got += os.read(self.read_end, 1 << 16)
        reader = threading.Thread(target=lambda: got_later.append(self.read_all(len(line) - len(got) + 6)), daemon=True)
        got_later = []
        reader.start()
        self.output._stalled = False
        self.output.lines(b"", [b"after"])
        reader.join(20)
        self.assertEqual(got + got_later[0], line + b"\nafter\n")

    def read_all(self, size):
        data = b""
        while len(data) < size:
            data += os.read(self.read_end, 1 << 16)
        return data


class ShortPrograms(unittest.TestCase):
    SLOW = ["sh", "-c", "sleep 1; echo 42"]

    def setUp(self):
        self.asked = threading.Event()
        threading.Timer(0.3, self.asked.set).start()

    def test_one_that_is_given_time_to_answer_does(self):
        self.assertEqual(tools.run(self.SLOW, "", asked_to_end=self.asked, answer=10.0), "42\n")
        with self.assertRaises(Interrupted):
            tools.run(self.SLOW, "", asked_to_end=self.asked, answer=10.0)  # no further one

    def test_others_are_not_waited_for(self):
        with self.assertRaises(Interrupted):
            tools.run(["sleep", "600"], "", asked_to_end=self.asked)

    def test_one_that_is_not_there_is_named(self):
        with self.assertRaisesRegex(UsageError, "could not start no-such-sbatch"):
            tools.submit(["no-such-sbatch"], "", "scancel", None)


class Locales(unittest.TestCase):
    def test_bytes_stay_the_same_between_locales(self):
        raw = "ü中".encode() + b"\xff"
        latin = raw.decode("latin-1")  # as Python has it where the locale says ISO-8859-1
        with mock.patch.object(os, "fsencode", lambda text: text.encode("latin-1")):
            sent = channel.portable({"command": [latin], "held": [1], "folder": None})
        self.assertEqual(channel.native(sent), {"command": [os.fsdecode(raw)], "held": [1], "folder": None})


class Channels(unittest.TestCase):
    def setUp(self):
        self.ours, self.theirs = socket.socketpair()
        self.addCleanup(self.ours.close)
        self.addCleanup(self.theirs.close)
        self.channel = channel.Channel(self.ours.fileno(), self.ours.fileno(), self.ours.close)
        self.other = channel.Channel(self.theirs.fileno(), self.theirs.fileno(), self.theirs.close)

    def test_whatever_a_system_has_travels(self):
        message = {"is": "line", "text": b"\xff\x00\n\xc3\xbc".decode(errors="surrogateescape"), "list": ["", "'", "\n"]}
        self.other.send({"is": "beat"})
        self.other.send(message)
        self.assertEqual(self.channel.receive(time.monotonic() + 10), message)

    def test_what_a_shell_prints_first_is_passed_over(self):
        self.theirs.sendall(b"Welcome!\n" + channel.HELLO)
        self.other.send({"is": "here"})
        self.assertEqual(self.channel.skip_to_hello(time.monotonic() + 10), b"Welcome!\n")
        self.assertEqual(self.channel.receive(time.monotonic() + 10), {"is": "here"})

    def test_ends(self):
        for data, why in ((struct.pack(">I", 1 << 31), "a message of"), (struct.pack(">I", 2) + b"{x", "no message")):
            with self.subTest(why):
                self.setUp()
                self.theirs.sendall(data)
                with self.assertRaisesRegex(channel.Closed, why):
                    self.channel.receive(time.monotonic() + 10)
        self.setUp()
        with self.assertRaisesRegex(channel.Closed, "no sign of life"):
            self.channel.receive(time.monotonic())
        self.theirs.close()
        with self.assertRaisesRegex(channel.Closed, "has ended"):
            self.channel.receive(time.monotonic() + 10)


class AgentPort(unittest.TestCase):
    def setUp(self):
        self.callers, self.came = [], threading.Event()
        self.port = agent_port.AgentPort("token", lambda its, here: (self.callers.append(here), self.came.set()), host_ip="127.0.0.1")
        self.addCleanup(self.port.close)

    def call(self, token):
        host, port = addresses.split_port(self.port.addresses[0])
        return agent_port.call_one(host, port, token)

    def test_who_has_the_token_is_heard(self):
        connection = self.call("token")
        connection.send_bytes(channel.HELLO)
        connection.send({"is": "here", "host": "h"})
        self.assertTrue(self.came.wait(10))
        self.assertEqual(self.callers, [{"is": "here", "host": "h"}])
        self.assertEqual(connection.launcher_address, "127.0.0.1")
        connection.close()

    def test_intruders_are_not(self):
        with self.assertRaises(OSError):
            self.call("another")
        with socket.create_connection(addresses.split_port(self.port.addresses[0]), 10) as intruder:
            intruder.settimeout(20)
            nonce = intruder.recv(agent_port.NONCE)
            self.assertEqual(len(nonce), agent_port.NONCE)
            intruder.sendall(nonce + agent_port.proof("token", b"launch", nonce, nonce))  # its own proof reflected
            self.assertEqual(intruder.recv(100), b"")
        self.assertEqual(self.callers, [])

    def test_intruders_that_dribble_are_sent_away(self):
        with mock.patch.object(agent_port, "HANDSHAKE", 0.3), socket.create_connection(addresses.split_port(self.port.addresses[0]), 10) as intruder:
            try:
                for _ in range(agent_port.NONCE):
                    if select.select([intruder], [], [], 0.1)[0] and not intruder.recv(100):
                        return
                    intruder.sendall(b"x")
            except (ConnectionResetError, BrokenPipeError):  # a byte came after the last read, or after the close
                return
            self.fail("a byte every 0.1 s is heard for longer than 0.3 s")

    def test_a_connection_that_cannot_be_accepted_is_not_the_end(self):
        real, self.port._listener = self.port._listener, mock.Mock()
        self.port._listener.accept.side_effect = itertools.chain([OSError(errno.EMFILE, "too many")], iter(real.accept, None))
        self.addCleanup(real.close)
        with contextlib.suppress(OSError):
            self.call("another")  # taken by the accept() that was under way
        self.test_who_has_the_token_is_heard()
        self.assertGreater(self.port._listener.accept.call_count, 1)


class RemoteHost(unittest.TestCase):
    def setUp(self):
        self.ours, self.theirs = socket.socketpair()
        self.addCleanup(self.theirs.close)
        self.agent = channel.Channel(self.theirs.fileno(), self.theirs.fileno(), self.theirs.close)
        self.lost = []
        self.host = hosts.RemoteHost(channel.Channel(self.ours.fileno(), self.ours.fileno(), self.close_ours), {"host": "h", "boot": "1"}, lambda host, why: self.lost.append(why))

    def close_ours(self):
        self.ours.shutdown(socket.SHUT_RDWR)
        self.ours.close()

    def test_ctrl_c_ends_the_wait_for_an_answer(self):
        waiter = threading.Timer(0.2, self.host.interrupt)
        waiter.start()
        begin = time.monotonic()
        with self.assertRaises(Interrupted):
            self.host.find([], "/")
        self.assertLess(time.monotonic() - begin, hosts.ANSWER_DEADLINE / 2)
        self.agent.send({"is": "answer", "left": True})
        self.host.end()

    def test_an_agent_more_than_there_are_places_is_sent_away(self):
        runner = supervisor.Supervisor(types.SimpleNamespace(log_dir=None, grace=None), None, f"sluice-test-{os.getpid()}", None)
        self.addCleanup(shutil.rmtree, runner.log_dir)
        runner.events.put(events.HostIsHere(self.host))
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertIsNone(runner.next_event(time.monotonic() + 0.2))
        self.assertIn("one more agent has come from h", said.getvalue())
        self.assertEqual(self.agent.receive(time.monotonic() + 10), {"do": "end"})
        self.agent.send({"is": "answer", "left": True})
        self.host.end()
        self.assertEqual(self.lost, [])


class Bootstrap(unittest.TestCase):
    def test_the_command_means_the_same_to_every_shell(self):
        head, code, tail = bootstrap.READ.split("'")
        self.assertEqual((head, tail), ("exec python3 -I -c ", ""))
        self.assertFalse(set(code) & set("!`$'\n"), "some shell minds these, also between single quotes")

    def test_the_program_ends_with_its_only_nul(self):
        self.assertEqual(bootstrap.program().index(b"\0"), len(bootstrap.program()) - 1)


if __name__ == "__main__":
    unittest.main(verbosity=1)
