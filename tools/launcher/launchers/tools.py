"""Programs that launchers use: those that start agents and last as long, and those that answer at once."""
import collections
import contextlib
import math
import os
import queue
import shutil
import subprocess
import threading
import time

from ..errors import Interrupted, UsageError
from ..events import Failed
from ..messages import say

KEPT = 8        # lines of a program, from each end
LOOK = 0.2      # seconds between looks whether the user ends the job
ANSWER = 3.0    # seconds for a submission that the user ends to be known
PARTING = 5.0   # seconds for a batch system to hear of the end
PATIENCE = 3.0  # seconds for mpirun or srun to end once its agents have
TIDYING = 2.0   # seconds for it to remove its files, once it is asked to end
GLANCE = 5.0    # seconds for a batch system to say how a job is, which nobody needs to know


class Tool:
    """A program that starts agents and lasts as long as they do: what it says is shown, and its early end tells that they will not come."""

    def __init__(self, command, environment, tell):
        try:
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except OSError as error:
            raise UsageError(f"could not start {command[0]}: {error.strerror}") from error
        self.name, self._tell = os.path.basename(command[0]), tell
        self._first, self._last = [], collections.deque(maxlen=KEPT)  # what it said first and last
        self.is_over = False  # what it says now is about our own end
        threading.Thread(target=self._follow, name=self.name, daemon=True).start()

    def _follow(self):
        with self.process.stdout as pipe:
            for line in pipe:
                text = line.decode(errors="replace").strip(" -*\r\n")
                if text:
                    (self._first if len(self._first) < KEPT else self._last).append(text)
        code = self.process.wait()
        if not self.is_over:
            said = self.said()
            self._tell(Failed(f"{self.name} ended with {code}" + (f": {said}" if said else "")))

    def said(self):
        """How it began and what it said last: the cause comes first, and may be followed by much."""
        return " / ".join([*self._first, *self._last])

    def end(self, patience=PATIENCE):
        """Once its agents have ended: it does, too."""
        self.is_over = True
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(TIDYING)


def run(command, what, text=None, asked_to_end=None, deadline=60.0, answer=0.0, pass_fds=(), name=None):
    """Standard output of a short command; UsageError where it fails, Interrupted once `asked_to_end` (an Event) is set and it has
    not ended within `answer` seconds."""
    name = name or command[0]
    if asked_to_end is not None and asked_to_end.is_set():
        raise Interrupted
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=pass_fds)
    except OSError as error:
        raise UsageError(f"{what}: could not start {name}: {error.strerror}") from error
    end, interrupted = time.monotonic() + deadline, False
    with process:
        while True:
            try:
                out, errors = process.communicate(text, timeout=LOOK)
                break
            except subprocess.TimeoutExpired:
                text = None  # what is given once is sent
                if not interrupted and asked_to_end is not None and asked_to_end.is_set():
                    interrupted, end = True, min(end, time.monotonic() + answer)
                if time.monotonic() < end:
                    continue
                process.kill()
                if interrupted:
                    raise Interrupted from None
                raise UsageError(f"{what}: {name} took more than {deadline:.0f} s") from None
    if process.returncode != 0:
        raise UsageError(f"{what}: {name} ended with {process.returncode}: {errors.strip() or out.strip()}")
    return out


# What it submits, and how that is taken back, is told to the guard before it is told here, and what it was to say no more. (Opened for reading as well, a pipe
# without a reader, as a killed guard leaves it, does not block.)
SUBMISSION = r'''
cancel=$1 guard=$2
shift 2
said=$("$@") || exit
job=$(echo "$said" | sed -n '$s/[.;].*//; $p')
case $job in '' | *[!0-9]*) echo "its answer names no job: $said" >&2; exit 65 ;; esac
printf '""\n["%s", "%s"]\n' "$cancel" "$job" 1<>"/dev/fd/$guard"
echo "$job"
'''


def submit(command, what, cancel, supervisor, text=None):
    """The number of the job that it submits. However launch.py ends, `cancel` is told it, also when that is while the batch
    system answers: it is given ANSWER to say which job it is."""
    if shutil.which(command[0]) is None:
        raise UsageError(f"{what}: could not start {command[0]}: No such file or directory")
    if supervisor.asked_to_end.is_set():
        raise Interrupted
    unknown = f"{command[0]} has not said within {ANSWER:.0f} s which job it submitted; one may be left in the queue"
    supervisor.guard_requests.add(ANSWER)
    supervisor.guard_requests.add(unknown)
    guard = supervisor.guard_requests.descriptor
    try:
        job = run(["sh", "-c", SUBMISSION, command[0], cancel, str(guard), *command], what, text, supervisor.asked_to_end, answer=ANSWER,
                  pass_fds=(guard,), name=command[0]).strip()
    except Interrupted:
        say(unknown)
        raise
    supervisor.guard_requests.add(0.0)
    return job


def unless_ended(ask, asked_to_end, answer=0.0):
    """What ask() returns or raises; Interrupted once `asked_to_end` is set and it has done neither within `answer` seconds."""
    outcome = queue.SimpleQueue()

    def work():
        try:
            outcome.put((ask(), None))
        except Exception as error:  # whoever waits has it
            outcome.put((None, error))
    threading.Thread(target=work, name="question", daemon=True).start()
    end = math.inf
    while time.monotonic() < end:
        try:
            result, error = outcome.get(timeout=LOOK)
        except queue.Empty:
            if asked_to_end.is_set():
                end = min(end, time.monotonic() + answer)
            continue
        if error:
            raise error
        return result
    raise Interrupted
