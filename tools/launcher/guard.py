"""The process that the user starts and signals. The job belongs to a second one, the runner, in a session of its own.

Either of the two outlives the other, also a kill -9 of it, and kills what came of the job.
"""
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time

from . import descendants, runner
from .messages import say

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LAST_WISH = 8.0            # seconds
QUESTION = signal.SIGUSR1  # scheduler, servers and workers answer it with their state


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


class Wishes:
    """What is to be done should the runner be killed: the pipe's end in which they are said."""

    def __init__(self, descriptor):
        self.descriptor = descriptor

    def add(self, wish):
        """A command to run, as a batch system knows nothing of the runner's end, or seconds to leave to what it has started, as
        mpirun cleans up when its agents end; the last word about them counts."""
        with contextlib.suppress(BrokenPipeError):  # the guard was killed: the runner, then, lives to do it
            os.write(self.descriptor, json.dumps(wish).encode() + b"\n")


def last_wishes(heard):
    """(commands, seconds), of those said until now."""
    os.set_blocking(heard, False)
    text = b""
    with contextlib.suppress(BlockingIOError):
        while chunk := os.read(heard, 1 << 16):
            text += chunk
    wishes = [json.loads(line) for line in text.splitlines()]
    return [wish for wish in wishes if isinstance(wish, list)], next((wish for wish in reversed(wishes) if not isinstance(wish, list)), 0.0)


def run_together(commands):
    end, running = time.monotonic() + LAST_WISH, []
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
    heard, to_guard = os.pipe()
    with subprocess.Popen([sys.executable, runner.__file__, logs_name, str(to_guard), *arguments], stdin=subprocess.PIPE, start_new_session=True,
                          pass_fds=(to_guard,)) as process:
        os.close(to_guard)
        while process.poll() is None:
            number = signal.sigwait([*stops, QUESTION, signal.SIGCHLD])
            if number != signal.SIGCHLD:
                process.send_signal(number)
    if process.returncode >= 0:
        return process.returncode
    commands, patience = last_wishes(heard)
    descendants.await_all(not_ours, patience)
    descendants.kill_all(not_ours)
    run_together(commands + last_wishes(heard)[0])  # what was just submitting a job has said which
    logs = os.path.join(tempfile.gettempdir(), logs_name)
    left = f", its logs are in {logs}" if os.path.isdir(logs) else ""
    say(f"its runner, pid {process.pid}, was killed by signal {-process.returncode}; no process of the job is left{left}")
    return 128 - process.returncode
