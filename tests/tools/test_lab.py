"""tools/lab.py: hosts that reach each other at the rate and with the delay of their links, and of which nothing is left."""
import os
import pathlib
import select
import signal
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))
import labs  # noqa: E402
from labs import lab  # noqa: E402

SEND = """import socket
with socket.create_server(("h1", 5000)) as server:
    print("up", flush=True)
    with server.accept()[0] as to:
        to.sendall(bytes(5_000_000))"""
RECEIVE = """import socket, time
start = time.monotonic()
with socket.create_connection(("h1", 5000)) as source:
    while source.recv(1 << 20):
        pass
print(5e6 * 8 / (time.monotonic() - start), socket.gethostname())"""
ANSWER = """import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
    here.bind(("h2", 5000))
    print("up", flush=True)
    while True:
        here.sendto(*here.recvfrom(100))"""
ASK = """import socket, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
    here.connect(("h2", 5000))
    times = []
    for i in range(5):
        start = time.monotonic()
        here.send(b"?")
        here.recv(100)
        times.append(time.monotonic() - start)
    print(min(times))"""
HOLD = """import sys
sys.path.insert(0, sys.argv[1])
import lab
with lab.Hosts(2) as hosts:
    hosts.start(0, ["sleep", "4242"])
    print(hosts.switch.keeper.pid, *(host.keeper.pid for host in hosts.hosts), flush=True)
    sys.stdin.read()"""


def ended(pid):
    """Within ten seconds."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with os.fdopen(handle) as end:
        return bool(select.select([end], [], [], 10)[0])


def running(*command):
    """Pids of processes with this command line."""
    wanted = "".join(f"{part}\0" for part in command).encode()
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path.parent.name] if path.read_bytes() == wanted else []
        except OSError:
            continue  # it has ended
    return found


class Lab(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with labs.or_skip(lambda: lab.Hosts(1, "1gbit")):
            pass

    def test_a_link_has_its_rate(self):
        with lab.Hosts(2, "100mbit") as hosts:
            source = hosts.start(0, [sys.executable, "-c", SEND], stdout=subprocess.PIPE, text=True)
            self.assertEqual(source.stdout.readline(), "up\n")
            sink = hosts.start(1, [sys.executable, "-c", RECEIVE], stdout=subprocess.PIPE, text=True)
            rate, name = sink.communicate(timeout=30)[0].split()
            source.communicate(timeout=30)
        self.assertEqual(name, "h2")
        self.assertLess(float(rate), 105e6)
        self.assertGreater(float(rate), 30e6)

    def test_a_link_has_its_length(self):
        round_trip = lambda hosts: float(hosts.start(0, [sys.executable, "-c", ASK], stdout=subprocess.PIPE,  # noqa: E731
                                                     text=True).communicate(timeout=30)[0])
        try:
            with lab.Hosts(2, delay_ms=20) as hosts:
                answers = hosts.start(1, [sys.executable, "-c", ANSWER], stdout=subprocess.PIPE, text=True)
                self.assertEqual(answers.stdout.readline(), "up\n")
                self.assertGreater(round_trip(hosts), 0.040)
                self.assertLess(round_trip(hosts), 0.5)
                hosts.set_delay(0)
                self.assertLess(round_trip(hosts), 0.040)
            answers.communicate(timeout=30)  # ended with its host
        except lab.Unavailable as why:
            labs.missing(str(why))

    def test_nothing_is_left(self):
        for number in (signal.SIGINT, signal.SIGKILL):
            with self.subTest(number=number), \
                    subprocess.Popen([sys.executable, "-c", HOLD, str(ROOT / "tools")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.DEVNULL, text=True) as holder:
                pids = [int(pid) for pid in holder.stdout.readline().split()]
                self.assertEqual(len(pids), 3)
                holder.send_signal(number)
                holder.wait(30)
                for pid in pids:
                    self.assertTrue(ended(pid))
                self.assertEqual(running("sleep", "4242"), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
