"""The process that the user starts and signals. The job belongs to a second one, the runner, in a session of its own.

Either of the two outlives the other, also a kill -9 of it, and kills what came of the job.
"""
import contextlib
import json
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import tempfile
import time

from . import descendants, limits
from .events import QUESTION, STOPS
from .messages import say

RUNNER = pathlib.Path(__file__).with_name("runner.py")  # a program: it imports all the rest
CLEAN_UP = 6.0    # seconds for the commands that GuardRequests asks for
AFTER_TERM = 2.0  # seconds for mpirun, say, to tidy up


def put_in_order():
    """What a parent may have left: standard streams closed, ends of children ignored."""
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor > 2:
            os.close(descriptor)
            break
        os.set_inheritable(descriptor, True)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)
    sys.stderr = sys.stderr or open(2, "w", closefd=False)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, no end is told and no exit code kept


class GuardRequests:
    """What the runner asks the guard to do if the runner is killed. It holds the pipe's end to which they are written."""

    def __init__(self, descriptor):
        self.descriptor = descriptor

    def add(self, request):
        """A list: a command to run, as a batch system knows nothing of the runner's end. A number: seconds to leave to what it has
        started, as mpirun cleans up when its agents end. A text: what the user is to be told. Of numbers and texts the last counts."""
        with contextlib.suppress(BrokenPipeError):  # the guard was killed: the runner, then, lives to do it
            os.write(self.descriptor, json.dumps(request).encode() + b"\n")


def new_requests(pipe):
    """Returns the requests that were not read before."""
    os.set_blocking(pipe, False)
    text = b""
    with contextlib.suppress(BlockingIOError):
        while chunk := os.read(pipe, 1 << 16):
            text += chunk
    return [json.loads(line) for line in text.splitlines()]


def last_of(kind, requests):
    return next((request for request in reversed(requests) if isinstance(request, kind)), kind())


def run_together(commands):
    end, running = time.monotonic() + CLEAN_UP, []
    for command in commands:
        with contextlib.suppress(OSError):
            running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    for process in running:
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main(arguments):
    """The exit code of launch.py."""
    return limits.within(lambda: guard(arguments))


def guard(arguments):
    put_in_order()
    signal.signal(QUESTION, lambda *_: None)
    stops = [n for n in STOPS if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]  # nohup ignores it
    # The runner inherits the mask: none of them can end it before it is ready.
    signal.pthread_sigmask(signal.SIG_BLOCK, [*stops, QUESTION, signal.SIGCHLD])
    not_ours = descendants.living()  # `exec launch.py` keeps the children of the shell
    descendants.adopt_orphans()
    logs_name = f"sluice-logs-{secrets.token_hex(6)}"
    with contextlib.suppress(FileNotFoundError):  # the runner will say so
        tempfile.gettempdir()  # kept: later, a full one would be passed over
    from_runner, to_guard = os.pipe()
    life, held = os.pipe()
    for descriptor in (life, to_guard):
        os.set_inheritable(descriptor, True)
    # It has what the user gave, also a descriptor: -H <(...).
    with subprocess.Popen([sys.executable, str(RUNNER), logs_name, str(to_guard), str(life), *arguments], start_new_session=True, close_fds=False) as process:
        os.close(to_guard)
        os.close(life)
        while process.poll() is None:
            number = signal.sigwait([*stops, QUESTION, signal.SIGCHLD])
            if number != signal.SIGCHLD:
                process.send_signal(number)
    if process.returncode >= 0:
        return process.returncode
    requests = new_requests(from_runner)
    patience = last_of(float, requests)
    descendants.await_all(not_ours, patience)
    if patience:
        descendants.terminate_all(not_ours, AFTER_TERM)
    descendants.kill_all(not_ours)
    requests += new_requests(from_runner)  # what was just submitting a job has said which
    run_together([request for request in requests if isinstance(request, list)])
    text = last_of(str, requests)
    logs = os.path.join(tempfile.gettempdir(), logs_name)
    left = f", its logs are in {logs}" if os.path.isdir(logs) else ""
    say(f"its runner, pid {process.pid}, was killed by signal {-process.returncode}; no process of the job is left{left}" + (f"; {text}" if text else ""))
    return 128 - process.returncode
