"""Parts of tools/launcher that run nothing: hostfiles, places, variables, addresses; and the connection between launch.py and its agents."""
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
import tempfile
import threading
import time
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from launcher import addresses, bootstrap, channel, environment, home, hostfile, hosts, members, placement, supervisor  # noqa: E402
from launcher.errors import Interrupted, UsageError  # noqa: E402
from launcher.job import Job, Resources  # noqa: E402
from launcher.launchers.base import Options  # noqa: E402
from launcher.launchers.local import Local  # noqa: E402
from launcher.launchers.mpi import Mpi  # noqa: E402
from launcher.launchers import callers, sge  # noqa: E402
from launcher.launchers.sge import Sge  # noqa: E402
from launcher.launchers.slurm import Slurm  # noqa: E402
from launcher.launchers.ssh import Ssh  # noqa: E402


class Hostfile(unittest.TestCase):
    def test_lines(self):
        hosts = hostfile.parse("# all\n\nh1\nh2:2222 slots=2  # two\n[fe80::1]:22 user=u interface=eth1\n::1 slots=3\n", "f")
        self.assertEqual(hosts, [hostfile.HostLine("h1"), hostfile.HostLine("h2", 2222, 2), hostfile.HostLine("fe80::1", 22, 1, "u", "eth1"), hostfile.HostLine("::1", None, 3)])
        self.assertEqual(hosts[2].target(), "u@fe80::1")

    def test_errors_name_the_line(self):
        for text, line, why in (("h1\nh2 slots=0\n", 2, "slots is '0'"), ("h1 slots=x", 1, "slots is 'x'"), ("h1:0", 1, "'0' is no port"), ("h1:99999", 1, "no port"),
                                ("a\n\nb cores=3", 3, "none of slots=N"), ("a\nb\na slots=2", 3, "in line 1"), ("h slots=1 slots=2", 1, "said twice"),
                                ("u@h", 1, "user=U"), ("-oProxyCommand=x", 1, "no host"), ("h user=-l", 1, "no user"), ("[::1", 1, "[address]:port"), ("h slots=", 1, "none of")):
            with self.subTest(text), self.assertRaises(UsageError) as raised:
                hostfile.parse(text, "hosts")
            self.assertTrue(str(raised.exception).startswith(f"hosts:{line}: "), raised.exception)
            self.assertIn(why, str(raised.exception))

    def test_a_byte_order_mark_is_no_part_of_a_name(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write("\ufeffh1\n".encode())
            file.flush()
            self.assertEqual(hostfile.read(file.name), [hostfile.HostLine("h1")])

    def test_no_hosts(self):
        for text in ("", "# none\n\n"):
            with self.assertRaisesRegex(UsageError, "no hosts"):
                hostfile.parse(text, "f")
        with self.assertRaisesRegex(UsageError, "/no/such"):
            hostfile.read("/no/such")


class Placement(unittest.TestCase):
    def where(self, places):
        return {f"{place.role} {place.rank}": place.index for place in places}

    def test_over_hosts(self):
        self.assertEqual(self.where(placement.over_hosts(2, 4, [1, 2])), {"server 0": 0, "server 1": 1, "worker 0": 0, "worker 1": 1, "worker 2": 1, "worker 3": 0})
        self.assertEqual(self.where(placement.over_hosts(3, 1, [5])), {"server 0": 0, "server 1": 0, "server 2": 0, "worker 0": 0})

    def test_over_seats_everybody_has_one_and_hosts_take_turns(self):
        seats = [("a", None), ("a", None), ("a", None), ("b", None), ("b", None)]
        places = self.where(placement.over_seats(2, 3, seats))
        self.assertEqual(sorted(places.values()), [0, 1, 2, 3, 4])
        self.assertEqual({seats[places[f"server {rank}"]][0] for rank in range(2)}, {"a", "b"})

    def test_over_seats_that_have_roles(self):
        places = self.where(placement.over_seats(1, 2, [("a", "worker"), ("b", "server"), ("a", "worker")]))
        self.assertEqual(places, {"server 0": 1, "worker 0": 0, "worker 1": 2})


class DryRun(unittest.TestCase):
    """What is printed of a process is what it gets, as shares() tells the supervisor."""

    def lines(self, launcher, options=None, **job):
        job = Job(3, 1, ["train", "a b"], **job)
        text = "\n".join(launcher(job, options or Options()).dry_run())
        self.assertNotIn(job.secret, text)
        return text

    def test_each_host_has_its_part(self):
        text = self.lines(Ssh, Options(hosts=hostfile.parse("h1 slots=2\n[fd77::2]:2222 interface=eth1", "f")), worker_resources=Resources(cores=4, gpus=2))
        there = dict(part.split("\n", 1) for part in text.split("# on ")[1:])
        self.assertEqual(list(there), ["this machine: scheduler", "h1: server 0, worker 0, worker 1", "[fd77::2]:2222: worker 2"])
        server, first, second = there["h1: server 0, worker 0, worker 1"].splitlines()
        third, = there["[fd77::2]:2222: worker 2"].splitlines()
        self.assertNotIn("CUDA_VISIBLE_DEVICES", server)
        self.assertIn("DMLC_INTERFACE=eth1", third)
        for line, gpus, workers in ((first, "0,1", 2), (second, "2,3", 2), (third, "0,1", 1)):
            for word in (f"CUDA_VISIBLE_DEVICES={gpus}", "SLUICE_CPU_THREADS=4", f"SLUICE_LOCAL_WORKERS={workers}", "SLUICE_JOB_SECRET='(hidden)'"):
                self.assertIn(f"{word} ", line)
            self.assertTrue(line.endswith(" train 'a b'"), line)

    def test_this_machine(self):
        text = self.lines(Local, worker_resources=Resources(gpus=1), worker_environment={"MY_API_KEY": "abc", "NAMED": "a b"})
        self.assertIn("MY_API_KEY='(hidden)' NAMED='a b' ", text)
        self.assertEqual([f"CUDA_VISIBLE_DEVICES={gpu} " in text for gpu in range(4)], [True, True, True, False])
        self.assertIn("SLUICE_LOCAL_WORKERS=3", text)

    def test_batch_systems(self):
        """They hold processes to their parts themselves, and choose the hosts."""
        for launcher, words in ((Sge, ["-pe smp 4", "-l h_vmem=256M", "-l gpu=1", "-t 1-3"]), (Slurm, ["--cpus-per-task=4", "--mem-per-cpu=256M", "--gpus-per-task=1"])):
            with self.subTest(launcher.name):
                text = self.lines(launcher, worker_resources=Resources(4, 1024, 1))
                for word in words:
                    self.assertIn(word, text)
                self.assertIn(f"# on hosts of {launcher.name}'s choice", text)
                self.assertIn("SLUICE_LOCAL_WORKERS=N", text)
                self.assertNotIn("CUDA_VISIBLE_DEVICES", text)


class WhoIsMissing(unittest.TestCase):
    def test_tasks_in_a_row_of_qstat(self):
        self.assertEqual([sge.tasks_of(text) for text in ("3", "1-6:1", "2,5-7:1")], [1, 6, 4])

    def test_hosts_that_came_and_those_that_did_not(self):
        mpi = Mpi(Job(3, 1, ["train"]), Options(hosts=hostfile.parse("h1\nh2.example.org\nh3\n", "f")))
        came = [types.SimpleNamespace(hostname=name) for name in ("h2", "h1")]
        self.assertEqual(mpi.missing(came), "came from h1 (1), h2 (1); none from h3; waiting for those that mpi starts")
        self.assertEqual(mpi.missing([]), "none from h1, h2.example.org, h3; waiting for those that mpi starts")


class Order(unittest.TestCase):
    def test_agents_stand_as_the_hostfile_has_their_hosts(self):
        mpi = Mpi(Job(2, 1, ["train"]), Options(hosts=hostfile.parse("h9.example.org\nh10\n", "f")))
        came = [types.SimpleNamespace(hostname=name, machine=(name, "1"), role=None) for name in ("other", "h10", "h9", "h9")]
        came.sort(key=mpi.in_order(mpi.expected_hosts()))
        self.assertEqual([host.hostname for host in came], ["h9", "h9", "h10", "other"])
        self.assertEqual({(place.role, place.rank): came[place.index].hostname for place in mpi.places(came[:3])},
                         {("server", 0): "h9", ("worker", 0): "h10", ("worker", 1): "h9"})

    @mock.patch("launcher.launchers.mpi.flavour", lambda _: "openmpi")
    def test_a_dry_run_says_the_same(self):
        mpi = Mpi(Job(2, 1, ["train"]), Options(hosts=hostfile.parse("h9\nh10\n", "f")))
        heads = [line for line in mpi.dry_run() if line.startswith("#")]
        self.assertEqual(heads, ["# on this machine: scheduler", "# on h9: server 0, worker 1", "# on h10: worker 0"])


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
        writer = threading.Thread(target=self.output.line, args=(b"[a] ", b"line"), daemon=True)
        writer.start()
        self.output.be_quiet()
        writer.join(members.PATIENCE / 2)
        self.assertFalse(writer.is_alive())

    def test_lines_are_left_out_until_the_reader_goes_on(self):
        self.fill()
        with mock.patch.object(members, "PATIENCE", 0.2):
            for _ in range(50):  # waited for once
                self.output.line(b"[a] ", b"lost")
        self.assertTrue(self.output.incomplete)
        while select.select([self.read_end], [], [], 0)[0]:
            os.read(self.read_end, 1 << 16)
        self.output.line(b"[a] ", b"heard")
        self.assertEqual(os.read(self.read_end, 100), b"[a] heard\n")

    def test_a_line_that_was_begun_is_ended_before_the_next(self):
        line = b"y" * (1 << 20)
        with mock.patch.object(members, "PATIENCE", 0.2):
            self.output.line(b"", line)
        got = b""
        while select.select([self.read_end], [], [], 0)[0]:
            got += os.read(self.read_end, 1 << 16)
        reader = threading.Thread(target=lambda: got_later.append(self.read_all(len(line) - len(got) + 6)), daemon=True)
        got_later = []
        reader.start()
        self.output._stalled = False
        self.output.line(b"", b"after")
        reader.join(20)
        self.assertEqual(got + got_later[0], line + b"\nafter\n")

    def read_all(self, size):
        data = b""
        while len(data) < size:
            data += os.read(self.read_end, 1 << 16)
        return data


class Submitting(unittest.TestCase):
    SLOW = ["sh", "-c", "sleep 1; echo 42"]

    def setUp(self):
        self.asked = threading.Event()
        threading.Timer(0.3, self.asked.set).start()

    def test_a_job_that_is_being_submitted_is_known_before_the_end(self):
        self.assertEqual(callers.run(self.SLOW, "", asked_to_end=self.asked, submits=True), "42\n")
        with self.assertRaises(Interrupted):
            callers.run(self.SLOW, "", asked_to_end=self.asked, submits=True)  # no further one

    def test_other_programs_are_not_waited_for(self):
        with self.assertRaises(Interrupted):
            callers.run(["sleep", "600"], "", asked_to_end=self.asked)

    def test_one_that_does_not_say_is_spoken_of(self):
        with mock.patch.object(callers, "ANSWER", 0.3), contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(Interrupted):
            callers.run(["sleep", "600"], "", asked_to_end=self.asked, submits=True)
        self.assertIn("one may be left in the queue", " ".join(said.getvalue().split()))


class Locales(unittest.TestCase):
    def test_bytes_stay_the_same_between_locales(self):
        raw = "ü中".encode() + b"\xff"
        latin = raw.decode("latin-1")  # as Python has it where the locale says ISO-8859-1
        with mock.patch.object(os, "fsencode", lambda text: text.encode("latin-1")):
            sent = channel.portable({"command": [latin], "held": [1], "folder": None})
        self.assertEqual(channel.native(sent), {"command": [os.fsdecode(raw)], "held": [1], "folder": None})


class Variables(unittest.TestCase):
    def test_forms(self):
        os.environ["LAUNCHER_TEST"] = "here"
        for text, expected in (("A=b=c", ("A", "b=c")), ("A:b=c", ("A", "b=c")), ("A=b:c", ("A", "b:c")), ("A=", ("A", "")), ("LAUNCHER_TEST", ("LAUNCHER_TEST", "here"))):
            self.assertEqual(environment.split(text, "--env"), expected)
        for text in ("=a", ":a", "", "A B=c", "DMLC_ROLE=worker", "SLUICE_JOB_SECRET:x", "NO_SUCH_VARIABLE_HERE"):
            with self.subTest(text), self.assertRaises(UsageError):
                environment.split(text, "--env")

    def test_what_travels(self):
        here = {"DMLC_INTERFACE": "1", "PS_VERBOSE": "1", "SLUICE_X": "1", "OMP_X": "1", "NCCL_X": "1", "CUDA_VISIBLE_DEVICES": "0", "LD_LIBRARY_PATH": "/x", "PYTHONPATH": "/y"}
        self.assertEqual(environment.travelling({**here, "HOME": "/h", "DMLC_ROLE": "worker", "SLUICE_JOB_SECRET": "s", "SLUICE_PORT_FD": "3"}), here)


class Addresses(unittest.TestCase):
    def test_ports(self):
        for text, expected in (("h", ("h", None)), ("h:1", ("h", 1)), ("::1", ("::1", None)), ("[::1]", ("::1", None)), ("[::1]:65535", ("::1", 65535))):
            self.assertEqual(addresses.split_port(text), expected)
            if expected[1]:
                self.assertEqual(addresses.with_port(*expected), text)
        for text in ("h:", "h:0", "h:65536", "h:x", "[::1", "[::1]x", "h:\u0661"):
            with self.subTest(text), self.assertRaises(ValueError):
                addresses.split_port(text)

    def test_interfaces(self):
        known = {"lo": ["127.0.0.1"], "eth0": ["10.0.0.1"], "eth1": ["10.0.1.1", "fd00::1"], "wg": []}
        self.assertEqual(addresses.of_interface("eth1", known), ["10.0.1.1", "fd00::1"])
        self.assertEqual(addresses.of_interface("eth", known), ["10.0.0.1", "10.0.1.1", "fd00::1"])
        with self.assertRaisesRegex(UsageError, "DMLC_INTERFACE is ib, .* there are eth0, eth1, lo"):
            addresses.of_interface("ib", known)
        self.assertIn("127.0.0.1", addresses.by_interface()["lo"])


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


class Home(unittest.TestCase):
    def setUp(self):
        self.callers, self.came = [], threading.Event()
        self.home = home.Home("token", lambda its, here: (self.callers.append(here), self.came.set()), host_ip="127.0.0.1")
        self.addCleanup(self.home.close)

    def call(self, token):
        host, port = addresses.split_port(self.home.addresses[0])
        return home.call_one(host, port, token)

    def test_who_has_the_token_is_heard(self):
        connection = self.call("token")
        connection.send_bytes(channel.HELLO)
        connection.send({"is": "here", "host": "h"})
        self.assertTrue(self.came.wait(10))
        self.assertEqual(self.callers, [{"is": "here", "host": "h"}])
        self.assertEqual(connection.launcher_address, "127.0.0.1")
        connection.close()

    def test_strangers_are_not(self):
        with self.assertRaises(OSError):
            self.call("another")
        with socket.create_connection(addresses.split_port(self.home.addresses[0]), 10) as stranger:
            stranger.settimeout(20)
            nonce = stranger.recv(home.NONCE)
            self.assertEqual(len(nonce), home.NONCE)
            stranger.sendall(nonce + home.proof("token", b"launch", nonce, nonce))  # its own proof reflected
            self.assertEqual(stranger.recv(100), b"")
        self.assertEqual(self.callers, [])


    def test_strangers_that_dribble_are_sent_away(self):
        with mock.patch.object(home, "HANDSHAKE", 0.3), socket.create_connection(addresses.split_port(self.home.addresses[0]), 10) as stranger:
            for _ in range(home.NONCE):
                if select.select([stranger], [], [], 0.1)[0] and not stranger.recv(100):
                    return
                with contextlib.suppress(OSError):  # closed in between
                    stranger.sendall(b"x")
            self.fail("a byte every 0.1 s is heard for longer than 0.3 s")

    def test_a_connection_that_cannot_be_accepted_is_not_the_end(self):
        real, self.home._listener = self.home._listener, mock.Mock()
        self.home._listener.accept.side_effect = itertools.chain([OSError(errno.EMFILE, "too many")], iter(real.accept, None))
        self.addCleanup(real.close)
        with contextlib.suppress(OSError):
            self.call("another")  # taken by the accept() that was under way
        self.test_who_has_the_token_is_heard()
        self.assertGreater(self.home._listener.accept.call_count, 1)


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
        runner = supervisor.Supervisor(types.SimpleNamespace(log_dir=None), None, f"sluice-test-{os.getpid()}", None)
        self.addCleanup(shutil.rmtree, runner.log_dir)
        runner.events.put(supervisor.HostIsHere(self.host))
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
