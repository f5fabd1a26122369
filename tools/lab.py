"""Hosts on one machine: each a network, a process table and a name of its own, on links of a given rate and length.

    with lab.Hosts(3, "1gbit", delay_ms=1) as hosts:
        server = hosts.start(0, ["build/bin/sluice_server"], env=...)

A host is a process that keeps its namespaces until its standard input ends, and the first of its process table: with it
ends whatever runs there. So however the program above ends, also by kill -9, no process, network or file is left.
"""
import os
import select
import pathlib
import shutil
import subprocess
import sys

TOOLS = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "tc": "iproute2"}
DELAY_TOOLS = {"iptables-legacy": "iptables"}
DELAY = pathlib.Path(__file__).with_name("lab_delay.py")
UP_DEADLINE = 10.0  # seconds
# What a link lets through at once: more than the 64 KB that a sender gives it as one (cut up, they cost ten times the processor
# time); and how long a frame may wait for it: a switch's buffer.
BURST, LATENCY = "96kb", "20ms"
BRIDGE = "switch"
SPACES = {"net": "net", "uts": "uts", "mount": "mnt", "pid": "pid_for_children"}
KEEP_HOST = """set -e
mount -t tmpfs names /mnt
printf %s "$2" >/mnt/hosts
mount --bind /mnt/hosts /etc/hosts
umount -l /mnt
hostname "$1"
ip link set lo up
sysctl -qw net.ipv4.tcp_congestion_control=reno
echo up
exec cat >/dev/null"""


class Unavailable(Exception):
    """This machine cannot have such hosts; the text says why."""


def require(tools):
    if os.geteuid() != 0:
        raise Unavailable("network namespaces need root")
    if missing := sorted({package for tool, package in tools.items() if shutil.which(tool) is None}):
        raise Unavailable(f"{' and '.join(missing)} is missing: tools/install_deps.sh --tests installs it")


class Host:
    def __init__(self, name, names):
        self.name, self.delayer = name, None
        self.keeper = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
             "sh", "-c", KEEP_HOST, "sh", name, names],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def await_up(self):
        self.await_word(self.keeper, self.name)

    @staticmethod
    def await_word(process, what):
        readable, _, _ = select.select([process.stdout], [], [], UP_DEADLINE)
        said = process.stdout.readline().decode().strip() if readable else "nothing in time"
        if said != "up":
            raise Unavailable(f"{what} did not come up: {said}")

    def enter(self, *kinds):
        return ["nsenter", *(f"--{kind}=/proc/{self.keeper.pid}/ns/{SPACES[kind]}" for kind in kinds), "--"]

    def inside(self, command):
        return self.enter(*SPACES) + [str(part) for part in command]

    def configure(self, *command):
        """The host's network, with processes named as they are here."""
        done = subprocess.run(self.enter("net") + list(command), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, timeout=UP_DEADLINE)
        if done.returncode != 0:
            raise Unavailable(f"{' '.join(command)} on {self.name}: {done.stderr.strip() or done.returncode}")

    def limit(self, interface, rate):
        self.configure("tc", "qdisc", "replace", "dev", interface, "root", "tbf", "rate", rate, "burst", BURST, "latency", LATENCY)

    def delay(self, microseconds):
        """Delays every packet that comes in."""
        first = self.delayer is None
        if first:
            self.delayer = subprocess.Popen(self.inside([sys.executable, DELAY]), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT, start_new_session=True)
        self.delayer.stdin.write(f"{microseconds}\n".encode())
        self.delayer.stdin.flush()
        if first:
            self.await_word(self.delayer, f"the delay of {self.name}")

    def down(self):
        for process in (self.delayer, self.keeper):
            if process is not None:
                self.end(process)

    @staticmethod
    def end(process):
        process.stdin.close()
        try:
            process.wait(UP_DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


class Hosts:
    """Hosts h1, h2, ... at 10.77.0.1, ..., each on its own link (eth0) to one switch; `rate` as tc says it, None for no limit;
    `delay_ms` of every packet from host to host, beside the link's own time. With `second_rate` each has a second link (eth1, 10.78.0.1,
    ...) to a switch of its own, with `ipv6` a second address on the first (fd77::1, ...)."""

    def __init__(self, count, rate=None, delay_ms=0, second_rate=None, ipv6=False):
        require(TOOLS)
        self.addresses = [f"10.77.0.{i + 1}" for i in range(count)]
        names = "127.0.0.1 localhost\n" + "".join(f"{address} h{i + 1}\n" for i, address in enumerate(self.addresses))
        self.switch, self.hosts = Host(BRIDGE, names), [Host(f"h{i + 1}", names) for i in range(count)]
        self.rate, self.delay_ms, self.second_rate, self.ipv6 = rate, delay_ms, second_rate, ipv6

    def __enter__(self):
        try:
            for host in (self.switch, *self.hosts):
                host.await_up()
            self.connect(BRIDGE, "eth0", self.addresses)
            for number, host in enumerate(self.hosts if self.ipv6 else (), 1):
                host.configure("ip", "addr", "add", f"fd77::{number}/64", "dev", "eth0", "nodad")
            if self.second_rate:
                self.connect("second", "eth1", [address.replace("10.77.", "10.78.") for address in self.addresses])
                for host in self.hosts:
                    host.limit("eth1", self.second_rate)
            self.set_rate(self.rate)
            self.set_delay(self.delay_ms)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for host in (*self.hosts, self.switch):
            host.down()

    def connect(self, bridge, interface, addresses):
        """All hosts to a switch."""
        self.switch.configure("ip", "link", "add", bridge, "type", "bridge")
        self.switch.configure("ip", "link", "set", bridge, "up")
        for host, address in zip(self.hosts, addresses):
            port = host.name if bridge == BRIDGE else f"{host.name}-{bridge}"
            self.switch.configure("ip", "link", "add", port, "type", "veth", "peer", "name", interface, "netns", str(host.keeper.pid))
            self.switch.configure("ip", "link", "set", port, "master", bridge, "up")
            host.configure("ip", "addr", "add", f"{address}/24", "dev", interface)
            host.configure("ip", "link", "set", interface, "up")

    def set_rate(self, rate):
        """Limits every link to `rate`, each way."""
        for host in self.hosts if rate else ():
            host.limit("eth0", rate)
            self.switch.limit(host.name, rate)

    def set_delay(self, delay_ms):
        if delay_ms or any(host.delayer for host in self.hosts):
            require(DELAY_TOOLS)
            for host in self.hosts:
                host.delay(delay_ms * 1000)

    def start(self, index, command, **options):
        """As subprocess.Popen. A signal reaches the program only where it is sent to its session's processes."""
        return subprocess.Popen(self.hosts[index].inside(command), stdin=subprocess.DEVNULL, start_new_session=True, **options)
