"""Grid Engine on hosts of ssh_lab.py: the master on the first, an execution daemon on every one, a user of its own.

What Debian's packages have set up stays as it is: hosts see copies.
"""
import os
import pathlib
import re
import shutil
import subprocess
import time

from ssh_lab import ROOT, SshHosts, lab

TOOLS = {"sge_qmaster": "gridengine-master", "sge_execd": "gridengine-exec", "qsub": "gridengine-client"}
HOME, SPOOL = pathlib.Path("/var/lib/gridengine"), pathlib.Path("/var/spool/gridengine")
USER, ID = "sluice", 4242  # Grid Engine refuses those below 1000
UP_DEADLINE = 40.0
HOST = """hostname {name}
load_scaling NONE
complex_values NONE
user_lists NONE
xuser_lists NONE
projects NONE
xprojects NONE
usage_scaling NONE
report_variables NONE
"""
PARALLEL = """pe_name smp
slots 99
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule $pe_slots
control_slaves FALSE
job_is_first_task TRUE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
"""
QUEUE = {"qname": "main.q", "hostlist": "@allhosts", "pe_list": "smp", "slots": "8", "shell": "/bin/sh", "shell_start_mode": "unix_behavior",
         "load_thresholds": "NONE", "notify": "00:00:05"}
SCHEDULER = {"schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1"}


def with_values(text, values):
    for name, value in values.items():
        text = re.sub(rf"^{name}\s.*$", f"{name} {value}", text, flags=re.M)
    return text


class SgeHosts(SshHosts):
    def __init__(self, count, **options):
        lab.require(TOOLS)
        super().__init__(count, **options)
        self.environment = {"SGE_ROOT": str(HOME), "SGE_CELL": "default"}

    def __enter__(self):
        super().__enter__()
        try:
            self.make_homes()
            self.start_sge()
        except BaseException:
            self.__exit__()
            raise
        return self

    def make_homes(self):
        """On every host: the user, Grid Engine's folder, and a folder of the user's own with the programs."""
        self.folder.chmod(0o755)
        for name, line in (("passwd", f"{USER}:x:{ID}:{ID}::{self.folder}/home:/bin/sh\n"), ("group", f"{USER}:x:{ID}:\n")):
            (self.folder / name).write_text(pathlib.Path("/etc", name).read_text() + line)
        subprocess.run(["cp", "-a", HOME, self.folder / "sge"], check=True)
        subprocess.run(["cp", "-a", SPOOL, self.folder / "spool"], check=True)
        (self.folder / "sge/default/common/act_qmaster").write_text("h1\n")
        self.home = self.folder / "home"
        self.home.mkdir()
        for index in range(len(self.hosts.hosts)):
            for source, target in ((self.folder / "passwd", "/etc/passwd"), (self.folder / "group", "/etc/group"), (self.folder / "sge", HOME),
                                   (self.folder / "spool", SPOOL)):
                self.inside(index, "mount", "--bind", source, target)
        shutil.copytree(ROOT / "tools", self.home / "tools")

    def bring(self, *programs):
        """The user may not read the checkout: copies, where launch.py finds them."""
        folder = self.home / "build" / "bin"
        folder.mkdir(parents=True)
        for program in programs:
            shutil.copy2(program, folder)
        subprocess.run(["chown", "-R", f"{ID}:{ID}", self.home], check=True)

    def start_sge(self):
        count = len(self.hosts.hosts)
        self.daemon(0, "setpriv", f"--reuid={self.id_of('sgeadmin')[0]}", f"--regid={self.id_of('sgeadmin')[1]}", "--clear-groups", "sge_qmaster")
        self.until(lambda: "execd_spool_dir" in self.qconf("-sconf"), "sge_qmaster does not come up")
        names = [f"h{index + 1}" for index in range(count)]
        for name in names:
            self.qconf("-ah", name)
            self.configure("-Ae", HOST.format(name=name))
        self.qconf("-as", "h1")
        self.configure("-Ahgrp", f"group_name @allhosts\nhostlist {' '.join(names)}\n")
        self.configure("-Ap", PARALLEL)
        self.configure("-Aq", with_values(self.qconf("-sq"), QUEUE))
        self.configure("-Msconf", with_values(self.qconf("-ssconf"), SCHEDULER))
        for index in range(count):
            self.daemon(index, "sge_execd")
        self.until(lambda: self.sge("qstat", "-f").count("lx-amd64") == count and " -NA- " not in self.sge("qstat", "-f"), "the hosts do not come up")

    def id_of(self, user):
        fields = re.search(rf"^{user}:[^:]*:(\d+):(\d+):", (self.folder / "passwd").read_text(), flags=re.M)
        return fields[1], fields[2]

    def until(self, holds, otherwise):
        end = time.monotonic() + UP_DEADLINE
        while not holds():
            if time.monotonic() > end:
                raise lab.Unavailable(f"Grid Engine: {otherwise}: {self.sge('qstat', '-f')}")
            time.sleep(0.2)

    def configure(self, flag, text):
        path = self.folder / "configuration"
        path.write_text(text)
        self.qconf(flag, path)

    def qconf(self, *arguments):
        return self.sge("qconf", *arguments)

    def sge(self, *command):
        """Standard output of one of Grid Engine's programs, on the first host."""
        return self.inside(0, "env", *(f"{name}={value}" for name, value in self.environment.items()), *command)

    def daemon(self, index, *command):
        """They stay in the foreground where SGE_ND is set."""
        self.daemons.append(self.hosts.start(index, [str(part) for part in command], env={**os.environ, **self.environment, "SGE_ND": "1"},
                                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def launch(self, *arguments, environment=(), **_):
        """As the user, in its home."""
        command = ["setpriv", f"--reuid={ID}", f"--regid={ID}", "--clear-groups", "/usr/bin/python3", self.home / "tools" / "launch.py", "--launcher", "sge", *arguments]
        return self.start(command, self.home, {**self.environment, "HOME": str(self.home), "PATH": "/usr/bin:/bin", **dict(environment)})

    def processes(self, index):
        return {pid: command for pid, command in super().processes(index).items() if not re.match(r"\S*/?sge_", command)}
