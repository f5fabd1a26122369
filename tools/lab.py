"""Hosts on one machine: each a network, a process table and a name of its own, on links of a given rate.

    with lab.Hosts(3, "1gbit") as hosts:
        server = hosts.start(0, ["build/bin/sluice_server"], env=...)

A host is a process that keeps its namespaces until its standard input ends, and the first of its process table: with it
ends whatever runs there. So however the program above ends, also by kill -9, no process, network or file is left.
"""
import os
import select
import shutil
import subprocess

TOOLS = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "tc": "iproute2"}
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


def require():
    if os.geteuid() != 0:
        raise Unavailable("network namespaces need root")
    if missing := sorted({package for tool, package in TOOLS.items() if shutil.which(tool) is None}):
        raise Unavailable(f"{' and '.join(missing)} is missing: tools/install_deps.sh --tests installs it")


class Host:
    def __init__(self, name, names):
        self.name = name
        self.keeper = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
             "sh", "-c", KEEP_HOST, "sh", name, names],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def await_up(self):
        readable, _, _ = select.select([self.keeper.stdout], [], [], UP_DEADLINE)
        said = self.keeper.stdout.readline().decode().strip() if readable else "nothing in time"
        if said != "up":
            raise Unavailable(f"{self.name} did not come up: {said}")

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

    def down(self):
        self.keeper.stdin.close()
        try:
            self.keeper.wait(UP_DEADLINE)
        except subprocess.TimeoutExpired:
            self.keeper.kill()
            self.keeper.wait()
        self.keeper.stdout.close()


class Hosts:
    """Hosts h1, h2, ... at 10.77.0.1, ..., each on its own link to one switch; `rate` as tc says it, None for no limit."""

    def __init__(self, count, rate=None):
        require()
        self.addresses = [f"10.77.0.{i + 1}" for i in range(count)]
        names = "127.0.0.1 localhost\n" + "".join(f"{address} h{i + 1}\n" for i, address in enumerate(self.addresses))
        self.switch, self.hosts = Host(BRIDGE, names), [Host(f"h{i + 1}", names) for i in range(count)]
        self.rate = rate

    def __enter__(self):
        try:
            for host in (self.switch, *self.hosts):
                host.await_up()
            self.switch.configure("ip", "link", "add", BRIDGE, "type", "bridge")
            self.switch.configure("ip", "link", "set", BRIDGE, "up")
            for host, address in zip(self.hosts, self.addresses):
                self.link(host, address)
            self.set_rate(self.rate)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for host in (*self.hosts, self.switch):
            host.down()

    def link(self, host, address):
        self.switch.configure("ip", "link", "add", host.name, "type", "veth", "peer", "name", "eth0", "netns", str(host.keeper.pid))
        self.switch.configure("ip", "link", "set", host.name, "master", BRIDGE, "up")
        host.configure("ip", "addr", "add", f"{address}/24", "dev", "eth0")
        host.configure("ip", "link", "set", "eth0", "up")

    def set_rate(self, rate):
        """Of every link, each way."""
        for host in self.hosts if rate else ():
            host.limit("eth0", rate)
            self.switch.limit(host.name, rate)

    def start(self, index, command, **options):
        """As subprocess.Popen. A signal reaches the program only where it is sent to its session's processes."""
        return subprocess.Popen(self.hosts[index].inside(command), stdin=subprocess.DEVNULL, start_new_session=True, **options)
