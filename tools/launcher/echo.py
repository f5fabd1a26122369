"""Which lines of the job's processes the terminal shows; their logs have all of them.

An error is shown once, by the process that found it. What another process was told of it (src/base/reported.h) is left out, and so is the
error that a process ends with where another one has ended with the same words, whatever program says them.
"""
import re
import threading

from . import limits

STAMP = re.compile(rb"\d\d:\d\d:\d\d\.\d{3} ")  # src/base/log.cc
TOLD = re.compile(rb"(?:(?:ERROR|WARNING): |[^ ]+: error: )told by |WARNING: refused a node, which is told why: ")
ERROR = re.compile(rb"ERROR: |[^ ]+: (?:unexpected )?error: ")
GOES_ON = b"  "  # a line of a message that was broken to fit a terminal
PATIENCE = 1.0   # seconds for a process to end after an error; if it goes on, the error is shown


def words_of(lines):
    """What a message says, without the time or the program's name before it, and wherever it was broken."""
    first = ERROR.sub(b"", STAMP.sub(b"", lines[0], count=1), count=1)
    return b" ".join(line.strip() for line in (first, *lines[1:]))


class LastWords:
    """The errors that processes of a job have ended with."""

    def __init__(self):
        self._lock, self._said = threading.Lock(), set()

    def are_new(self, message):
        with self._lock:
            is_new = message not in self._said
            self._said.add(message)
        return is_new


class Echo:
    """One process's. Lines and the end come from its host's threads."""

    def __init__(self, show, last_words):
        """`show(lines)` writes them to the terminal, with nobody's between them."""
        self._show, self._last_words = show, last_words
        self._lock = threading.RLock()
        self._held, self._leaves_out, self._timer = [], False, None
        self.was_told = self.said_the_same = False  # an error of another process; as another one did
        self.last_error = None

    def take(self, line):
        with self._lock:
            if line.startswith(GOES_ON) and (self._leaves_out or self._held):
                if self._held:
                    self._held.append(line)
                return
            self._release()
            text = STAMP.sub(b"", line, count=1)
            self._leaves_out = TOLD.match(text) is not None
            if self._leaves_out:
                self.was_told = True
            elif ERROR.match(text):
                self._hold(line)
            else:
                self._show([line])

    def end(self, failed):
        """Is called when the process has ended."""
        with self._lock:
            if failed and self._held:
                self.last_error = words_of(self._held)
                if not self._last_words.are_new(self.last_error):
                    self.said_the_same, self._held = True, []
            self._release()

    def _hold(self, line):
        self._held = [line]
        timer = threading.Timer(PATIENCE, self._release)
        timer.daemon = True
        try:
            limits.start(timer)
        except RuntimeError:  # no thread (limits.py): it is shown at once
            self._release()
        else:
            self._timer = timer

    def _release(self):
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._held:
                self._show(self._held)
                self._held = []
