"""All that came of this process, by parentage: no cleared environment and no session of its own hides a process from it."""
import ctypes
import os
import select
import signal
import time

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """From now on a descendant whose parent ends becomes this process's child, not init's."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refuses PR_SET_CHILD_SUBREAPER")


def read_stat(pid):
    """(parent, has ended); None once it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        state, parent, threads = fields[0], int(fields[1]), int(fields[17])
    except (OSError, IndexError, ValueError):
        return None
    return parent, state in "ZX" and threads <= 1  # a zombie with threads is one whose main thread has ended


def living(spare=frozenset()):
    """Pids of this process's descendants that have not ended, without those to spare and what came of these."""
    children, ended = {}, set()
    for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        stat = read_stat(pid)
        if stat is None or pid in spare:
            continue
        children.setdefault(stat[0], []).append(pid)
        if stat[1]:
            ended.add(pid)
    found, rest = set(), [os.getpid()]
    while rest:
        below = children.get(rest.pop(), ())
        found.update(below)
        rest.extend(below)
    return found - ended


def kill_all(spare=frozenset(), deadline=5.0):
    """True when nothing is left."""
    end, empty = time.monotonic() + deadline, 0
    while empty < 2:  # one look can miss a process whose parent ends meanwhile
        found = living(spare)
        empty = 0 if found else empty + 1
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if found and time.monotonic() > end:
            return False
        await_one(found)
    return True


def await_all(spare, seconds):
    """Until all have ended by themselves, or the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and (found := living(spare)):
        await_one(found)
        reap_orphans(spare)


def terminate_all(spare, seconds):
    """Asks all to end; returns once they have, or the time is over."""
    for pid in living(spare):
        try:
            os.kill(pid, signal.SIGTERM)
        except OSError:
            pass
    await_all(spare, seconds)


def await_one(pids, timeout=0.1):
    """Until one of them has ended."""
    poller, handles = select.poll(), []
    for pid in pids:
        try:
            handles.append(os.pidfd_open(pid))
        except OSError:
            continue  # gone
        poller.register(handles[-1], select.POLLIN)
    if handles:
        poller.poll(timeout * 1000)
    for handle in handles:
        os.close(handle)


def reap_orphans(own):
    """Takes the exit codes of children that ended and are not `own`."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in own:
            continue
        if read_stat(entry) == (os.getpid(), True):
            try:
                os.waitpid(int(entry), os.WNOHANG)
            except ChildProcessError:
                pass
