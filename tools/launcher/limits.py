"""The operating system's limits, in words: those that end a process of the job, and those that launch.py itself runs into."""
import contextlib
import errno
import os
import pathlib
import resource
import socket
import threading
import time

ROOT = pathlib.Path("/")
NO_LIMIT = 1 << 60  # what v1 says where there is none is larger
RUN_OUT = {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT}


def number(file):
    """None where it says none: "max", no such file."""
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def counter(file, name):
    """Returns the number behind `name` in a file with a name and a number on each line; None where it has none."""
    try:
        lines = [line.split() for line in file.read_text(encoding="ascii").splitlines()]
    except (OSError, ValueError):
        return None
    return next((int(line[1]) for line in lines if len(line) == 2 and line[0] == name and line[1].isdigit()), None)


def unescaped(text):
    """As mountinfo writes it (proc(5)): a space is "\\040"."""
    for code in ("\\040", "\\011", "\\012", "\\134"):
        text = text.replace(code, chr(int(code[1:], 8)))
    return text


def groups(controller, root=ROOT):
    """[(folder, is v2)] of this process's control groups (cgroups(7)) that `controller` may bound, each before its parent."""
    try:
        mounts = (root / "proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        own = [line.split(":", 2) for line in (root / "proc/self/cgroup").read_text(encoding="utf-8", errors="surrogateescape").splitlines()]
    except OSError:
        return []
    found = []
    for mount in mounts:
        place, _, kind = mount.partition(" - ")
        place, kind = place.split(" "), kind.split(" ")
        v2 = kind[0] == "cgroup2"
        if len(place) < 5 or not (v2 or (kind[0] == "cgroup" and controller in kind[-1].split(","))):
            continue
        name = next((group for _, controllers, group in own if (not controllers if v2 else controller in controllers.split(","))), None)
        if name is None:
            continue
        top, folder = pathlib.PurePosixPath(unescaped(place[3])), root / unescaped(place[4]).lstrip("/")
        path = pathlib.PurePosixPath(name)
        # A name from outside this container's namespace: what is mounted is taken for the group itself.
        below = path.relative_to(top) if path == top or top in path.parents else pathlib.PurePosixPath()
        found += [(folder / part, v2) for part in (below, *below.parents)]
    return found


def memory_limit(root=ROOT):
    """"the control group X allows 512 MiB (memory.max)": the tightest one; None where there is none."""
    limits = []
    for folder, v2 in groups("memory", root):
        name = "memory.max" if v2 else "memory.limit_in_bytes"
        limit = number(folder / name)
        if limit is not None and limit < NO_LIMIT:
            limits.append((limit, folder, name))
    if not limits:
        return None
    limit, folder, name = min(limits)
    return f"the control group {folder} allows {limit / (1 << 20):.0f} MiB ({name})"


class MemoryKills:
    """Tells which of the processes that were killed the kernel has killed for memory, by its own counters."""

    def __init__(self, root=ROOT):
        self._root, self._lock = root, threading.Lock()
        self._explained = self._counters()

    def _counters(self):
        """Returns how many processes of the innermost group that has a counter were killed, whoever killed them. Counters of groups
        above it, and the machine's, count others as well; the machine's is asked where there is no group."""
        for folder, v2 in groups("memory", self._root):
            count = counter(folder / ("memory.events" if v2 else "memory.oom_control"), "oom_kill")
            if count is not None:
                return {folder: count}
        count = counter(self._root / "proc/vmstat", "oom_kill")
        return {} if count is None else {"the machine": count}

    def why(self):
        """Asked when a process ended by SIGKILL: words, or None where it was not for memory."""
        with self._lock:
            now, killed = self._counters(), False
            for where, count in now.items():
                if count > self._explained.get(where, count):
                    self._explained[where] += 1
                    killed = True
        if not killed:
            return None
        limit = memory_limit(self._root) or "the machine has no more of it"
        return f"by the kernel, for memory: {limit}; give it more, or the job smaller batches or fewer processes on a host"


def in_words(error):
    """Says what launch.py, or its agent, could not have; None where `error` is nothing of the kind."""
    if isinstance(error, MemoryError):
        return f"no memory: {memory_limit() or 'ulimit -v, or the machine, allows no more'}"
    if isinstance(error, RuntimeError) and "thread" in str(error):
        return f"no thread: {thread_limits()}"
    if not isinstance(error, OSError) or error.errno not in RUN_OUT:
        return None
    if error.errno in (errno.EMFILE, errno.ENFILE):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"no descriptor: {soft} may be open (ulimit -n; the hard limit is {hard}); raise it, or start fewer processes"
    if error.errno == errno.EAGAIN:
        return f"no process: {thread_limits()}"
    if error.errno == errno.ENOMEM:
        return f"no memory: {memory_limit() or error.strerror}"
    return f"{error.strerror}{f': {error.filename}' if error.filename else ''}; make room, or name another folder (TMPDIR, --log-dir)"


def thread_limits():
    limits = []
    for folder, _ in groups("pids"):
        limit = number(folder / "pids.max")
        if limit is not None:
            limits.append(f"the control group {folder} allows {limit} (pids.max) and has {number(folder / 'pids.current')}")
    allowed = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if os.geteuid() != 0 and allowed != resource.RLIM_INFINITY:
        limits.append(f"user {os.geteuid()} may run {allowed} processes and threads (ulimit -u)")
    maps = resource.getrlimit(resource.RLIMIT_AS)[0]
    if maps != resource.RLIM_INFINITY:
        limits.append(f"this process may map {maps >> 20} MiB, the stacks of its threads among them (ulimit -v)")
    return (", ".join(limits) or "see /proc/sys/kernel/threads-max and ulimit -u") + "; raise the limit, or start fewer processes"


# Who binds this name, of sockets that are no files (unix(7)), has it until the socket closes, however its process ends.
START_LOCK = f"\0sluice-threads-of-user-{os.geteuid()}"
START_PATIENCE = 1  # seconds, once: who could not have it in that time never waits for it again
_given_up = threading.Event()


def owner_ended(patience):
    """Waits for who has the lock. False: there was nobody to wait for."""
    with socket.socket(socket.AF_UNIX) as waiting:
        waiting.settimeout(max(patience, 0.001))
        try:
            waiting.connect(START_LOCK)
            waiting.recv(1)
        except ConnectionRefusedError:  # it is about to listen, or has just gone
            return False
        except OSError:  # a timeout, or the owner has closed
            pass
        return True


@contextlib.contextmanager
def start_lock():
    """While it is held, no other process of this user that belongs to a job starts threads or processes, so that those which it has
    tried out are still there when a library asks for them (src/base/threads.cc). Goes on without after a second."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # no descriptor
            lock = stack.enter_context(socket.socket(socket.AF_UNIX))
            end = time.monotonic() + START_PATIENCE
            while True:
                try:
                    lock.bind(START_LOCK)
                    lock.listen(128)
                    break
                except OSError:
                    left = end - time.monotonic()
                    if left <= 0:
                        _given_up.set()
                    if _given_up.is_set():
                        break
                    if not owner_ended(left):
                        os.sched_yield()
        yield


def start(thread):
    """Where the system gives none: RuntimeError, as thread.start()."""
    with start_lock():
        thread.start()


class DescriptorRoom:
    """Raises this process's limit of descriptors. Programs that it starts get the soft limit that was before: some rely on it, as
    select() on numbers below 1024."""

    before = resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    @classmethod
    def make(cls, more):
        """So many more can be opened, where the hard limit allows them."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = len(os.listdir("/proc/self/fd")) + more
        goal = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        if soft != resource.RLIM_INFINITY and soft < goal:
            resource.setrlimit(resource.RLIMIT_NOFILE, (goal, hard))

    @classmethod
    def give_back(cls, pid):
        """To a program that was just started."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != cls.before:
            with contextlib.suppress(OSError):  # it has ended
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (cls.before, hard))


def within(run):
    """What run() returns; 1, once it is said, where the operating system has not what that takes."""
    try:
        return run()
    except (OSError, RuntimeError, MemoryError) as error:
        words = in_words(error)
        if words is None:
            raise
        from .messages import say  # an agent, where this comes without it, says nothing
        say(f"this machine's limits are too small for it: {words}")
        return 1
