"""Hosts of tools/lab.py that one reaches by ssh: the real sshd on each, a key, and launch.py on the first of them."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from labs import lab

ROOT = pathlib.Path(__file__).resolve().parents[2]

SSHD = "/usr/sbin/sshd"
SERVER = """Port 22
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
{more}
"""
CLIENT = """Host *
  IdentityFile {folder}/user
  StrictHostKeyChecking accept-new
  UserKnownHostsFile {folder}/known
  LogLevel ERROR
"""
# sshd wants its folder, and forgets its environment: what a host has of its own goes by a mount.
START = 'mkdir -p /run/sshd && mount -t tmpfs -o mode=755 sshd /run/sshd && exec "$@"'


class SshHosts:
    """As lab.Hosts. `shell`: the login shell of everybody there. `more`: lines of sshd's configuration."""

    def __init__(self, count, shell=None, more="", **links):
        lab.require({**lab.TOOLS, SSHD: "openssh-server", "ssh": "openssh-client", "rsync": "rsync"})
        self.hosts = lab.Hosts(count, **links)
        self.scratch = tempfile.TemporaryDirectory(prefix="ssh-lab-")
        self.folder, self.shell, self.more = pathlib.Path(self.scratch.name), shell, more
        self.daemons = []

    def __enter__(self):
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key], check=True)
        (self.folder / "sshd_config").write_text(SERVER.format(folder=self.folder, more=self.more))
        (self.folder / "ssh_config").write_text(CLIENT.format(folder=self.folder))
        try:
            self.hosts.__enter__()
        except BaseException:
            self.scratch.cleanup()
            raise
        try:
            for index in range(len(self.hosts.hosts)):
                self.start_sshd(index)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.hosts.__exit__()
        for daemon in self.daemons:
            daemon.wait(10)
        self.scratch.cleanup()

    def start_sshd(self, index):
        command = [SSHD, "-D", "-f", self.folder / "sshd_config", "-E", self.folder / f"sshd{index}.log"]
        start = START
        if self.shell:
            passwd = self.folder / "passwd"
            passwd.write_text(re.sub(r"^(root:.*:)[^:]*$", rf"\g<1>{self.shell}", pathlib.Path("/etc/passwd").read_text(), flags=re.M))
            start = f"mount --bind {passwd} /etc/passwd && {start}"
        self.daemons.append(self.hosts.start(index, ["sh", "-c", start, "sh", *command]))
        log, end = self.folder / f"sshd{index}.log", time.monotonic() + 10
        while not (log.exists() and "Server listening" in log.read_text()):
            if time.monotonic() > end:
                raise lab.Unavailable(f"sshd on h{index + 1} does not listen: {log.read_text() if log.exists() else ''}")
            time.sleep(0.02)

    def ssh(self):
        """As --ssh takes it."""
        return f"ssh -F {self.folder / 'ssh_config'}"

    def hostfile(self, text):
        path = self.folder / "hosts"
        path.write_text(text)
        return path

    def launch(self, *arguments, launcher="ssh", hosts="h1\nh2\nh3\n", folder=ROOT, environment=(), **options):
        """launch.py on the first host, as subprocess.Popen gives it."""
        way = {"ssh": ["--ssh", self.ssh()]}.get(launcher, ["--launcher", launcher])
        command = [sys.executable, ROOT / "tools" / "launch.py", *(["-H", self.hostfile(hosts)] if hosts else []), *way, *arguments]
        return self.start(command, folder, environment, **options)

    def start(self, command, folder=ROOT, environment=(), **options):
        env = {**{name: value for name, value in os.environ.items() if not name.startswith(("DMLC_", "PS_", "SLUICE_"))}, **dict(environment)}
        return self.hosts.start(0, ["env", "-C", folder, *command], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)

    def run(self, *arguments, timeout=120, **options):
        """(exit code, all output in long lines)"""
        with self.launch(*arguments, **options) as process:
            try:
                said = process.communicate(timeout=timeout)[0]
            except subprocess.TimeoutExpired:
                self.kill_inside(0, "launch.py", signal.SIGKILL)
                said = process.communicate(timeout=20)[0]
                raise AssertionError("launch.py did not end:\n" + said) from None
        return process.returncode, re.sub(r"\n  (?=\S)", " ", said)

    def inside(self, index, *command):
        """Standard output of a short command there."""
        return subprocess.run(self.hosts.hosts[index].inside(command), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=30).stdout

    def processes(self, index):
        """{pid: command line} there, without kernel-like ones and those of this lab."""
        found = {}
        for line in self.inside(index, "ps", "-eo", "pid=,stat=,args=").splitlines():
            pid, state, command = line.split(None, 2)
            if "Z" not in state and not command.startswith(("cat", "ps ", "sh -c", SSHD, "sshd: ")) and "sshd:" not in command:
                found[int(pid)] = command
        return found

    def kill_inside(self, index, text, number):
        """Whoever's command line holds the text, but who started that; how many."""
        pids = [pid for pid, command in self.processes(index).items() if text in command and not command.startswith("salloc")]
        self.inside(index, "kill", f"-{int(number)}", *map(str, pids))
        return len(pids)

    def received(self, index, interface):
        """Bytes."""
        return int(re.search(rf"{interface}:\s*(\d+)", self.inside(index, "cat", "/proc/net/dev"))[1])
