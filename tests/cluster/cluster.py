"""Starts a job's processes one by one, without tools/launch.py, so that a test can kill, starve or attack each of them."""
import os
import pathlib
import re
import secrets
import signal
import subprocess
import tempfile
import time

# Who runs the tests in the background of a script ignores Ctrl-C, and what is started here would do so, too.
signal.signal(signal.SIGINT, signal.default_int_handler)


def mnist_folder():
    """SLUICE_MNIST, else the MNIST that lies beside the checkout, else None."""
    beside = pathlib.Path(__file__).resolve().parents[3] / "shared" / "data" / "mnist"
    return os.environ.get("SLUICE_MNIST") or (beside if beside.exists() else None)


def unwrapped(text):
    """With messages that were broken to fit a terminal in one line again: other processes' lines may stand in between."""
    lines, last = [], {}  # last: of each process
    for line in text.split("\n"):
        who, goes_on, words = re.fullmatch(r"(\[[a-z0-9 ]+\] )?(  (?=\S))?(.*)", line).groups()
        if goes_on and who in last:
            lines[last[who]] += " " + re.sub(r"^\|   (?=\S)", "", words)  # the launcher quotes a process's last lines behind bars
        else:
            last[who] = len(lines)
            lines.append(line)
    return "\n".join(lines)


class Process:
    """One process of the job; its output goes to a file, and its standard input ends when the test says so."""

    def __init__(self, name, command, environment, folder, pass_fds=()):
        self.name = name
        self.log = folder / (name.replace(" ", "-") + ".log")
        with open(self.log, "wb") as output:
            self.popen = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT,
                                          stdin=subprocess.PIPE, start_new_session=True, pass_fds=pass_fds)

    def printed(self):
        return self.log.read_text(errors="replace")

    def output(self):
        return unwrapped(self.printed())

    def wait(self, timeout):
        return self.popen.wait(timeout)

    def end_input(self):
        self.popen.stdin.close()

    def kill(self, number=signal.SIGKILL):
        self.popen.send_signal(number)

    def wait_for_output(self, text, timeout):
        """Until the process has printed `text`; fails when it ends first or time is over."""
        end = time.monotonic() + timeout
        while text not in self.output():
            if self.popen.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"{self.name} never printed {text!r} (exit code {self.popen.poll()}):\n{self.output()}")
            time.sleep(0.02)


class Cluster:
    """A scheduler, servers and workers with one secret. Use as a context manager: whatever is left is killed."""

    def __init__(self, bin_dir, num_workers, num_servers, **environment):
        self.bin = pathlib.Path(bin_dir)
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name)
        self.processes = []
        self.environment = {
            "DMLC_NUM_WORKER": str(num_workers), "DMLC_NUM_SERVER": str(num_servers),
            "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": "0",
            "SLUICE_JOB_ID": f"test-{secrets.token_hex(4)}", "SLUICE_JOB_SECRET": secrets.token_hex(16),
            **{name: str(value) for name, value in environment.items()},
        }

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.popen.poll() is None:
                process.kill()
                process.wait(10)
            process.end_input()
        self.scratch.cleanup()

    def start(self, name, command, pass_fds=(), **environment):
        merged = {k: v for k, v in os.environ.items() if not k.startswith(("DMLC_", "PS_", "SLUICE_"))}
        merged.update(self.environment)
        merged.update({key: str(value) for key, value in environment.items()})
        process = Process(name, [str(part) for part in command], merged, self.folder, pass_fds)
        self.processes.append(process)
        return process

    def start_scheduler(self, **environment):
        read_end, write_end = os.pipe()
        process = self.start("scheduler", [self.bin / "sluice_scheduler"], pass_fds=(write_end,),
                             DMLC_ROLE="scheduler", SLUICE_PORT_FD=write_end, **environment)
        os.close(write_end)
        with os.fdopen(read_end) as pipe:
            port = pipe.readline().strip()
        if not port:
            process.wait(10)
            raise AssertionError(f"the scheduler told no port:\n{process.output()}")
        self.environment["DMLC_PS_ROOT_PORT"] = port
        return process

    def start_server(self, rank, **environment):
        return self.start(f"server {rank}", [self.bin / "sluice_server"], DMLC_ROLE="server", DMLC_RANK=rank, **environment)

    def start_worker(self, rank, command, **environment):
        return self.start(f"worker {rank}", command, DMLC_ROLE="worker", DMLC_RANK=rank, **environment)

    def start_all(self, worker_command):
        """(scheduler, servers, workers)"""
        scheduler = self.start_scheduler()
        servers = [self.start_server(rank) for rank in range(int(self.environment["DMLC_NUM_SERVER"]))]
        workers = [self.start_worker(rank, worker_command) for rank in range(int(self.environment["DMLC_NUM_WORKER"]))]
        return scheduler, servers, workers

    def port(self):
        return int(self.environment["DMLC_PS_ROOT_PORT"])

    def listening_ports(self):
        """Every TCP port that a process of this job listens on."""
        inodes = {}
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            for line in pathlib.Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A":
                    inodes[fields[9]] = int(fields[1].rsplit(":", 1)[1], 16)
        ports = set()
        for process in self.processes:
            for fd in pathlib.Path(f"/proc/{process.popen.pid}/fd").glob("*"):
                try:
                    target = os.readlink(fd)
                except OSError:
                    continue
                if target.startswith("socket:[") and target[8:-1] in inodes:
                    ports.add(inodes[target[8:-1]])
        return sorted(ports)
