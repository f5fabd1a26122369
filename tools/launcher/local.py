"""The local launcher: every process of the job on this machine."""
import errno
import os
import queue
import select
import shutil
import signal
import tempfile
import threading
import time

from . import descendants
from .errors import UsageError
from .guard import QUESTION, STOPS
from .job import find_program, find_stock
from .messages import say
from .processes import Output, Process

PORT_DEADLINE = 30.0   # seconds for the scheduler to bind
BLAME_WINDOW = 1.0     # within which other ends belong to the first
STOP_GRACE = 5.0       # between SIGTERM and SIGKILL
FINISH_GRACE = 15.0    # for the rest to end once the workers are done or a server has ended
GUARD_IS_GONE = 0      # an event like a signal's number


class LocalRun:
    def __init__(self, job, logs_name):
        """`logs_name`: of the folder that is made for logs where the job names none."""
        self.job = job
        self.worker_command = find_program(job.worker_command, "the command")
        self.server_command = (find_program(job.server_command, "the server command") if job.server_command
                               else find_stock("sluice_server", self.worker_command[0]))
        self.scheduler_command = find_stock("sluice_scheduler", self.worker_command[0])
        self.output = Output()
        self.processes, self.events = [], queue.SimpleQueue()  # events: a Process that ended, or a signal's number
        self.port_pipe = None  # where the scheduler tells its port, and then that the job is complete
        self.log_dir = self._make_log_dir(logs_name)
        self.guard_is_gone = False

    def _make_log_dir(self, logs_name):
        if self.job.log_dir is None:
            folder = os.path.join(tempfile.gettempdir(), logs_name)
            os.mkdir(folder, mode=0o700)
            return folder
        try:
            os.makedirs(self.job.log_dir, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--log-dir {self.job.log_dir}: {error.strerror}") from error
        return self.job.log_dir

    # --- Starting ---

    def start(self, role, rank, command, port, extra, pass_fds=()):
        extra = {"SLUICE_LOCAL_WORKERS": str(self.job.num_workers), **extra}  # they share this machine's cores
        environment = self.job.environment(role, rank, port, extra)
        try:
            held = [QUESTION] if self.answers(role) else []  # asked before it can answer, it would end
            process = Process(role, rank, command, environment, self.log_dir, self.output, self.events.put, pass_fds, held)
        except OSError as error:
            missing = " (what its first line names after #!)" if error.errno == errno.ENOENT and os.path.exists(command[0]) else ""
            raise UsageError(f"could not start {command[0]}: {error.strerror}{missing}") from error
        self.processes.append(process)
        process.follow()
        return process

    def start_scheduler(self):
        """The port that it listens on; None when it ended before it had one."""
        read_end, write_end = os.pipe()
        self.start("scheduler", None, self.scheduler_command, 0,
                   {**self.job.scheduler_environment, "SLUICE_PORT_FD": str(write_end)}, pass_fds=(write_end,))
        os.close(write_end)
        os.set_blocking(read_end, False)
        self.port_pipe = os.fdopen(read_end, "rb", buffering=0)
        poller = select.poll()
        poller.register(read_end, select.POLLIN)
        text, end = b"", time.monotonic() + PORT_DEADLINE
        while not text.endswith(b"\n"):
            if time.monotonic() >= end or not self.events.empty():
                return None
            if poller.poll(200):
                chunk = self.port_pipe.read(64)
                if not chunk:
                    return None
                text += chunk
        return int(text)

    def is_complete(self):
        """Whether everybody has joined. The scheduler tells it here before it tells the workers."""
        return b"complete" in (self.port_pipe.read(64) or b"")

    def start_all(self):
        port = self.start_scheduler()
        if port is None:
            return
        for rank in range(self.job.num_servers):
            self.start("server", rank, self.server_command, port, self.job.server_environment)
        for rank in range(self.job.num_workers):
            self.start("worker", rank, self.worker_command, port, self.job.worker_environment)

    # --- Watching ---

    def watch(self):
        """The job's exit code, once all have ended or been stopped."""
        self.start_all()
        signal.signal(signal.SIGCHLD, lambda n, _: self.events.put(n))  # not before all children of its own are known
        alive = set(self.processes)
        if len(alive) == 1:  # the scheduler never told a port
            return self.fail_without_port(alive)
        deadline = first = None
        while alive:
            event = self.next_event(deadline)
            if event is None:
                return self.give_up(first, alive)
            if isinstance(event, int):
                return self.end_by(event, alive)
            alive.discard(event)
            if event.returncode != 0:
                return self.fail_with(event, alive)
            workers_left = any(p.role == "worker" for p in alive)
            if alive and not workers_left and deadline is None and not self.is_complete():
                say("the workers are done, and none joined the job (local stores need no job); stopping scheduler and servers")
                self.stop(alive)
                return 0
            if workers_left and not any(p.role == "scheduler" for p in alive):
                deadline = None  # the job has ended well; a worker may go on with work of its own
            elif deadline is None and (event.role == "server" or not workers_left):
                deadline, first = time.monotonic() + FINISH_GRACE, event
        return 0

    def next_event(self, deadline):
        """A Process or a signal's number; None when the deadline comes first."""
        while True:
            timeout = 3600.0 if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                event = self.events.get(timeout=timeout)
            except queue.Empty:
                if deadline is not None:
                    return None
                continue
            if event != signal.SIGCHLD:
                return event
            descendants.reap_orphans({p.pid for p in self.processes})

    def give_up(self, first, alive):
        workers_left = any(p.role == "worker" for p in alive)
        what = f"{first.name} ended with {first.how_it_ended()}" if workers_left else "the workers are done"
        say(f"{what}, but these still run: " + ", ".join(sorted(p.name for p in alive)) + "; stopping them")
        self.stop(alive)
        return 1 if workers_left else 0

    def fail_without_port(self, alive):
        event = self.next_event(time.monotonic() + PORT_DEADLINE)
        if isinstance(event, int):
            return self.end_by(event, alive)
        if event is not None:
            return self.fail_with(event, alive)
        self.stop(alive)
        say(f"{next(iter(alive)).name} told no port within {PORT_DEADLINE:.0f} s")
        return 1

    def end_by(self, number, alive):
        if number == GUARD_IS_GONE:  # nobody to tell, no time to lose
            self.guard_is_gone = True
            self.output.be_quiet()
            return 128 + signal.SIGKILL
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        say(f"{name}: stopping the job; its logs are in {self.log_dir}")
        self.stop(alive)
        return 128 + number

    def root_of(self, process, alive):
        """Who failed first. One process's end makes the others end within moments, with 1 for "the job failed": what was
        killed, or ended with a code of its own, or else a worker, comes before those that it took along."""
        ended, end = [process], time.monotonic() + BLAME_WINDOW
        while alive - set(ended):
            event = self.next_event(end)
            if event is None:
                break
            if isinstance(event, int):
                self.events.put(event)
                break
            ended.append(event)
        alive.difference_update(ended)
        failed = [p for p in ended if p.returncode != 0] or ended
        return min(failed, key=lambda p: (p.returncode >= 0, p.returncode == 1, p.role != "worker"))

    def fail_with(self, process, alive):
        process = self.root_of(process, alive)
        code = process.exit_code() or 1
        last = "its last lines:" if process.tail else "it printed nothing"
        say(f"{process.name} (pid {process.pid}) ended with {process.how_it_ended()}; {last}")
        for line in process.tail:
            self.output.line(b"  | ", line)
        self.stop(alive)
        say(f"the job failed; logs are in {self.log_dir}")
        return code

    def stop(self, alive):
        """SIGTERM, a grace, SIGKILL."""
        self.output.be_quiet()
        for process in alive:
            process.signal(signal.SIGTERM)
        end = time.monotonic() + STOP_GRACE
        waiting = set(alive)
        while waiting:
            event = self.next_event(end)
            if event is None or isinstance(event, int):
                break  # time is over, or asked twice: no more grace
            waiting.discard(event)
        for process in waiting:
            process.signal(signal.SIGKILL)

    # --- What comes from outside ---

    def answers(self, role):
        """Programs of our own do; another one may end by the question."""
        return role == "scheduler" or (role == "server" and not self.job.server_command)

    def ask(self):
        for process in self.processes:
            if self.answers(process.role) and process.returncode is None:
                process.signal(QUESTION)

    def listen(self):
        for number in STOPS:
            signal.signal(number, lambda n, _: self.events.put(n))
        signal.signal(QUESTION, lambda *_: self.ask())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [*STOPS, QUESTION, signal.SIGCHLD])
        threading.Thread(target=self.watch_guard, name="guard", daemon=True).start()

    def watch_guard(self):
        while os.read(0, 64):
            pass
        self.events.put(GUARD_IS_GONE)


def run(job, logs_name):
    descendants.adopt_orphans()
    local = LocalRun(job, logs_name)
    local.listen()
    code, refused = 1, False
    try:
        code = local.watch()
    except UsageError:
        refused = True
        raise
    finally:
        signal.signal(QUESTION, signal.SIG_IGN)  # there is nobody left to ask
        if not descendants.kill_all():
            say("some processes of the job could not be killed")
        unread = job.log_dir is None and (local.guard_is_gone or refused)  # logs that nobody was told of
        if local.output.incomplete and not unread:
            say(f"not all output could be written; the logs are in {local.log_dir}")
        elif unread or (code == 0 and job.log_dir is None):
            shutil.rmtree(local.log_dir, ignore_errors=True)
    return code
