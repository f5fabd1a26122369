"""Runs a job from its start to its end, wherever its processes run: starts them, tells who failed first, stops the rest."""
import os
import queue
import shlex
import shutil
import signal
import tempfile
import threading
import time

from . import descendants
from .addresses import is_own
from .errors import Interrupted, LaunchError, UsageError
from .events import GUARD_IS_GONE, NEWS, QUESTION, Failed, HostIsHere, HostIsLost
from .hosts import FAREWELL, LocalHost
from .members import Member, Output
from .messages import say
from .processes import Spec
from .rendezvous import Rendezvous, listed

PORT_DEADLINE = 30.0   # seconds for the scheduler to bind
BLAME_WINDOW = 1.0     # within which other ends belong to the first
STOP_GRACE = 5.0       # between SIGTERM and SIGKILL, unless --grace says
FINISH_GRACE = 15.0    # for the rest to end once the workers are done or a server has ended


class Flag:
    """As a threading.Event, but a signal's handler may set it while another does."""

    def __init__(self):
        self._is_set = False

    def set(self):
        self._is_set = True

    def is_set(self):
        return self._is_set


def refuse_what_was_passed_over(used):
    """Python takes another folder, without a word, where the one that TMPDIR names cannot be used."""
    named = os.environ.get("TMPDIR")
    if not named or os.path.abspath(named) == used:
        return
    why = "does not exist" if not os.path.exists(named) else "is no folder" if not os.path.isdir(named) else "cannot be written to"
    raise UsageError(f"no folder for the logs: TMPDIR is '{named}', which {why}; set it to one that can be written, unset it, or name one with --log-dir")


class Supervisor:
    def __init__(self, job, launcher, logs_name, guard_requests):
        """`logs_name`: of the folder that is made for logs where the job names none. `guard_requests`: a GuardRequests."""
        self.job, self.launcher = job, launcher
        self.here = LocalHost()
        self.output = Output()
        # A Member that ended, HostIsHere, HostIsLost, Failed, a signal's number, NEWS, or what the launcher's gather() takes
        self.events = queue.SimpleQueue()
        self.hosts, self.members = [], []
        self.rendezvous = Rendezvous(lambda: self.events.put(NEWS))
        self.log_dir = job.log_dir or self._make_log_dir(logs_name)
        self.guard_is_gone = self.stopping = self.ended_by_user = False
        self.asked_to_end, self.asked_by = Flag(), None  # a signal's number, or GUARD_IS_GONE
        self.guard_requests = guard_requests
        self.grace = STOP_GRACE if job.grace is None else job.grace

    @staticmethod
    def _make_log_dir(logs_name):
        try:
            temporary = tempfile.gettempdir()
            refuse_what_was_passed_over(temporary)
            folder = os.path.join(temporary, logs_name)
            os.mkdir(folder, mode=0o700)
        except OSError as error:
            raise UsageError(f"no folder for the logs: {error}; TMPDIR or --log-dir names one that can be written") from error
        return folder

    # --- Starting ---

    def start(self, role, rank, host, command, root, extra, **options):
        far = not host.is_here
        environment = {**self.job.environment(role, rank, root, far), **extra}
        held = [QUESTION] if self.answers(role) else []  # asked before it can answer, it would end
        member = Member(role, rank, host, self.log_dir, self.output, self.events.put)
        member.start(Spec(command, environment, self.job.folder if far else None, held), **options)
        self.members.append(member)
        if self.launcher.options.verbose:
            say(f"{member.name} {member.where()} runs {shlex.join(command)}")

    def start_scheduler(self, command, addresses):
        """False when it ended before it had a port."""
        extra = {"SLUICE_PORT_FD": str(self.rendezvous.write_end)}
        foreign = [address for address in dict.fromkeys(addresses) if not is_own(address)]
        if foreign:
            say(f"{', '.join(foreign)} is none of this machine's addresses and taken for one that leads here (NAT); --host-ip names another")
        if foreign or len(set(addresses)) > 1:
            extra["DMLC_USE_KUBERNETES"] = "1"  # listens on all of this machine's
        root = next((address for address in addresses if ":" in address), addresses[0])  # IPv6 sockets hear IPv4 as well
        self.start("scheduler", None, self.here, command, (root, self.job.scheduler_port), extra,
                   pass_fds=(self.rendezvous.write_end,))
        self.rendezvous.scheduler_has_started()
        return self.rendezvous.await_port(time.monotonic() + PORT_DEADLINE, lambda: not self.events.empty())

    def start_all(self):
        """False when the scheduler told no port."""
        addresses = self.launcher.scheduler_addresses(self.hosts)
        places = self.launcher.places(self.hosts)
        commands = {index: self.hosts[index].find(self.job.programs(), self.job.folder) for index in {place.index for place in places}}
        scheduler, = self.here.find([self.job.scheduler_program()], os.getcwd())
        shares = self.launcher.shares(places, [host.machine for host in self.hosts])
        if not self.start_scheduler(scheduler, addresses):
            return False
        for place in places:
            self.start(place.role, place.rank, self.hosts[place.index], commands[place.index][place.role == "server"],
                       (addresses[place.index], self.rendezvous.port), shares[place])
        return True

    # --- Watching ---

    def watch(self):
        """The job's exit code, once all have ended or been stopped."""
        self.hosts = self.launcher.gather(self)
        if isinstance(self.hosts, int):
            return self.hosts
        started = self.start_all()
        signal.signal(signal.SIGCHLD, lambda n, _: self.events.put(n))  # not before all children of its own are known
        alive = set(self.members)
        if not started:
            return self.fail_without_port(alive)
        deadline = first = None
        while alive:
            event = self.next_event(deadline)
            if event is None:
                return self.give_up(first, alive)
            if isinstance(event, int):
                return self.end_by(event, alive)
            if isinstance(event, HostIsLost):
                return self.fail_with_host(event, alive)
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

    def is_complete(self):
        """Whether everybody has joined. The scheduler tells it here before it tells the workers."""
        self.rendezvous.read()
        return self.rendezvous.complete

    def next_event(self, deadline):
        """A Member, HostIsLost or a signal's number; None when the deadline comes first. LaunchError when mpirun, say, has ended."""
        while True:
            timeout = 3600.0 if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                event = self.events.get(timeout=timeout)
            except queue.Empty:
                if deadline is not None:
                    return None
                continue
            if event == NEWS:
                self.rendezvous.read()
                if self.rendezvous.waiting:
                    say(self.rendezvous.report(self.members[1:]))
            elif event == signal.SIGCHLD:
                descendants.reap_orphans({*(m.process.pid for m in self.members if m.host.is_here), *self.launcher.children()})
            elif isinstance(event, HostIsHere):  # a batch system may start again what it takes for lost
                say(f"one more agent has come from {event.host.name}, where all are there; it is sent away")
                event.host.begin_to_end()
                self.hosts.append(event.host)
            elif isinstance(event, Failed):
                if not self.stopping:
                    raise LaunchError(event.why)
            else:
                return event

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
        if isinstance(event, HostIsLost):
            return self.fail_with_host(event, alive)
        if event is not None:
            return self.fail_with(event, alive - {event})
        self.stop(alive)
        say(f"{next(iter(alive)).name} told no port within {PORT_DEADLINE:.0f} s")
        return 1

    def end_by(self, number, alive):
        if number == GUARD_IS_GONE:  # nobody to tell, no time to lose
            self.guard_is_gone = True
            self.output.be_quiet()
            return 128 + signal.SIGKILL
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        self.ended_by_user = True
        say(f"{name}: stopping the job" + (f"; its logs are in {self.log_dir}" if self.job.log_dir else ""))
        if self.let_workers_end(alive):
            self.stop(alive)
        else:
            self.kill(alive)
        return 128 + number

    def end_interrupted(self):
        """After Interrupted, which came before the event of the same signal: there it would count as a second one."""
        while self.events.get() != self.asked_by:
            pass
        return self.end_by(self.asked_by, {member for member in self.members if member.returncode is None})

    def root_of(self, member, alive):
        """Who failed first. One process's end makes the others end within moments, with 1 for "the job failed": what was
        killed, or ended with a code of its own, or else a worker, comes before those that it took along. A lost host comes
        before all."""
        ended, end = [member], time.monotonic() + BLAME_WINDOW
        while alive - set(ended):
            event = self.next_event(end)
            if event is None:
                break
            if isinstance(event, int):
                self.events.put(event)
                break
            if isinstance(event, HostIsLost):
                return event
            ended.append(event)
        alive.difference_update(ended)
        failed = [p for p in ended if p.returncode != 0] or ended
        likely = "worker" if self.is_complete() else "scheduler"  # before all are there, it is the scheduler that gives up
        return min(failed, key=lambda p: (p.returncode >= 0, p.returncode == 1, p.echo.was_told, p.echo.said_the_same, p.role != likely))

    def fail_with(self, member, alive):
        member = self.root_of(member, alive)
        if isinstance(member, HostIsLost):
            return self.fail_with_host(member, alive)
        code = member.exit_code() or 1
        self.output.be_quiet()
        last, lines = member.what_it_said()
        also = [other.name for other in self.members if other is not member and other.echo.said_the_same and other.echo.last_error == member.echo.last_error]
        say(f"{member.name} {member.where()} ended with {member.how_it_ended()}{f', and {listed(also)} with the same words' if also else ''}; {last}")
        self.output.last_lines(b"  | ", lines)
        if member.role == "scheduler" and self.rendezvous.port and not self.is_complete():
            say(self.rendezvous.report(self.members[1:]))
        self.stop(alive)
        say(f"the job failed; logs are in {self.log_dir}")
        return code

    def fail_with_host(self, lost, alive):
        there = [member for member in self.members if member.host is lost.host and member in alive]
        ran = f"; it ran {', '.join(member.name for member in there)}" if there else ""
        self.output.be_quiet()
        say(f"host {lost.host.name} was lost: {lost.why}{ran}")
        for member in there:
            _, lines = member.what_it_said()
            if lines:
                say(f"the last lines of {member.name}:")
                self.output.last_lines(b"  | ", lines)
        self.stop({member for member in alive if member.host is not lost.host})
        say(f"the job failed; logs are in {self.log_dir}")
        return 1

    def let_workers_end(self, alive):
        """SIGTERM to the workers alone: while servers and scheduler are there, they may save what they have. Who has ended is no longer
        in `alive`. False once the user has asked twice."""
        self.stopping = True
        if self.job.grace is None:
            self.output.be_quiet()
        workers = {member for member in alive if member.role == "worker"}
        for member in workers:
            member.signal(signal.SIGTERM)
        waits = self.await_ends(workers, alive)
        self.kill(workers & alive)
        return waits

    def stop(self, alive):
        """SIGTERM, a grace, SIGKILL."""
        self.stopping = True
        self.output.be_quiet()
        for member in alive:
            member.signal(signal.SIGTERM)
            if member.role != "worker" and self.job.grace is not None:
                member.signal(signal.SIGINT)  # after one alone it goes on (SLUICE_GRACE)
        self.await_ends(set(alive), alive)
        self.kill(alive)

    def await_ends(self, members, alive):
        """Until these have ended, which are then taken from `alive`, or the grace is over. False once the user has asked again."""
        end = time.monotonic() + self.grace
        while members & alive:
            event = self.next_event(end)
            if event is None:
                break
            if isinstance(event, int):
                return False
            alive -= {member for member in alive if member.host is event.host} if isinstance(event, HostIsLost) else {event}
        return True

    @staticmethod
    def kill(members):
        for member in members:
            member.signal(signal.SIGKILL)

    # --- What comes from outside ---

    def answers(self, role):
        """Programs of our own do; another one may end by the question."""
        return role == "scheduler" or (role == "server" and not self.job.server_command)

    def ask(self):
        for member in self.members:
            if self.answers(member.role) and member.returncode is None:
                member.signal(QUESTION)

    def listen(self, lifeline):
        signal.signal(QUESTION, lambda *_: self.ask())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [QUESTION, signal.SIGCHLD])
        lifeline.listen(self.hear)

    def hear(self, number):
        self.asked_by = number
        self.events.put(number)
        self.asked_to_end.set()
        for host in self.hosts if isinstance(self.hosts, list) else []:
            if not host.is_here:
                host.interrupt()

    def hear_host(self, number):
        """A batch system has asked an agent to end; perhaps all of them."""
        if not self.asked_to_end.is_set():
            self.hear(number)

    # --- The end ---

    def leave_hosts(self):
        """Agents kill what they started; whoever has not said so by the deadline has been cut off, and does it by itself."""
        hosts = self.hosts if isinstance(self.hosts, list) else []
        for host in hosts:
            if not host.is_here:
                host.begin_to_end()
        deadline = time.monotonic() + FAREWELL
        for host in hosts:
            if not host.is_here:
                host.end(deadline)
        self.launcher.cancel()

    def keep_or_remove_logs(self, code, refused):
        unread = self.job.log_dir is None and (self.guard_is_gone or self.ended_by_user or refused)  # logs that nobody was told of
        if self.output.incomplete and not unread:
            say(f"not all output could be written; the logs are in {self.log_dir}")
        elif unread or (code == 0 and self.job.log_dir is None):
            shutil.rmtree(self.log_dir, ignore_errors=True)


def make_named_log_dir(path):
    """It stays, whatever comes of the job."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--log-dir {path}: {error.strerror}") from error


def run(job, launcher, logs_name, guard_requests, lifeline):
    descendants.adopt_orphans()
    if job.log_dir is not None:
        make_named_log_dir(job.log_dir)  # while it may be ended: a folder of the network may not answer
    lifeline.pause()
    supervisor = Supervisor(job, launcher, logs_name, guard_requests)
    supervisor.listen(lifeline)
    code, refused = 1, False
    try:
        code = launcher.supervise(supervisor)
    except Interrupted:
        code = supervisor.end_interrupted()
    except LaunchError as error:
        say(error)
        say(f"the job failed; logs are in {supervisor.log_dir}")
    except UsageError:
        refused = True
        raise
    finally:
        signal.signal(QUESTION, signal.SIG_IGN)  # there is nobody left to ask
        supervisor.leave_hosts()
        if not descendants.kill_all():
            say("some processes of the job could not be killed")
        supervisor.keep_or_remove_logs(code, refused)
    return code
