"""How the runner hears that it shall end: signals, which the guard passes on, and the guard's own end."""
import os
import signal
import threading

from . import descendants
from .events import GUARD_IS_GONE, STOPS


def leave(number):
    """Before there is a job."""
    descendants.kill_all()
    os._exit(128 + (number or signal.SIGKILL))


class Lifeline:
    """Until listen() ends this process: also while it reads a file that does not answer, or waits for a program."""

    def __init__(self, descriptor):
        self._hear = leave
        self._beginning = threading.Lock()  # between pause() and listen(), and where leave() has begun for good
        threading.Thread(target=self._watch, args=(descriptor,), name="guard", daemon=True).start()
        self._handle()

    def listen(self, hear):
        """After pause(): hear(number) from now on; in a signal's handler, or a thread."""
        self._hear = hear
        self._beginning.release()
        self._handle()

    def _handle(self):
        for number in STOPS:
            signal.signal(number, lambda n, _: self._hear(n))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)

    def pause(self):
        """Until listen(): what is made meanwhile has an owner by then. Once this process leaves, that makes nothing any more."""
        self._beginning.acquire()
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)

    def _watch(self, descriptor):
        while os.read(descriptor, 64):
            pass
        with self._beginning:
            if self._hear is leave:
                leave(GUARD_IS_GONE)
        self._hear(GUARD_IS_GONE)
