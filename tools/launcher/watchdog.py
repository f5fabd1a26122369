"""Cleans up after a job, whatever became of launch.py: a process of its own that outlives it.

It reads from a pipe whose other end launch.py alone holds. When that closes, however launch.py ended (also by kill -9), everything that carries
the job's id in its environment is killed: programs, and what they started.

Usage: watchdog.py JOB_ID  (standard input: the pipe)
"""
import os
import signal
import sys
import time


def pids_of(job_id):
    """Processes of this job other than this one."""
    marker = f"SLUICE_JOB_ID={job_id}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if marker in file.read().split(b"\0"):
                    found.append(int(entry))
        except OSError:
            continue  # gone, or not ours
    return found


def kill_all(job_id, deadline=5.0):
    """True when nothing of the job is left."""
    end = time.monotonic() + deadline
    while True:
        alive = [pid for pid in pids_of(job_id) if not is_zombie(pid)]
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if not alive:
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.05)


def is_zombie(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except (OSError, IndexError):
        return True


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    kill_all(sys.argv[1])
