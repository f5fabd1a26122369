"""What launch.py says itself, on standard error; and writing to whoever may have stopped reading: a pager, a terminal after Ctrl-S."""
import os
import pathlib
import select
import sys
import textwrap
import time

IS_INSTALLED = pathlib.Path(__file__).resolve().parents[2].name == "sluice"  # PREFIX/share/sluice/tools/launcher: cmake/SluiceInstall.cmake
NAME = "sluice_launch" if IS_INSTALLED else "launch.py"
COMMAND = NAME if IS_INSTALLED else "tools/launch.py"  # as it is typed
COLUMNS = 80
PATIENCE = 0.5  # seconds for a message; the job's end does not wait for a reader
LOOK = 0.1      # seconds between looks whether to go on
AT_ONCE = 4096  # bytes: a pipe that can be written to has room for so many (PIPE_BUF, pipe(7))


def write_while(may_wait, descriptor, data):
    """How many bytes were taken; fewer than all where there is no room and not `may_wait(seconds since there was)`. OSError where
    nobody will read."""
    poller, taken, had_room = select.poll(), 0, time.monotonic()
    poller.register(descriptor, select.POLLOUT)
    while taken < len(data):
        if poller.poll(0) or poller.poll(LOOK * 1000):
            taken += os.write(descriptor, data[taken:taken + AT_ONCE])
            had_room = time.monotonic()
        elif not may_wait(time.monotonic() - had_room):
            break
    return taken


def say(text):
    """In lines that fit a terminal; names of files and programs stay whole. Nobody may be reading: the job goes on."""
    lines = textwrap.fill(f"{NAME}: {text}", COLUMNS, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    try:
        sys.stderr.flush()
        descriptor = sys.stderr.fileno()
    except (OSError, ValueError):  # no file, or closed
        descriptor = None
    try:
        if descriptor is None:
            print(lines, file=sys.stderr, flush=True)
        else:
            write_while(lambda seconds: seconds < PATIENCE, descriptor, f"{lines}\n".encode(errors="backslashreplace"))
    except (OSError, ValueError):
        pass
