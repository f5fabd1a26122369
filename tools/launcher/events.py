"""What happens to a job: the signals that guard and runner know, and the events that the supervisor's queue holds."""
import signal
from dataclasses import dataclass

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
QUESTION = signal.SIGUSR1  # scheduler, servers and workers answer it with their state
GUARD_IS_GONE = 0          # in place of a signal's number
NEWS = "news"              # the rendezvous has something to read


@dataclass
class HostIsHere:
    host: object


@dataclass
class HostIsLost:
    host: object
    why: str


@dataclass
class Failed:
    """A host, or all of them, will not come, or what brought them has ended."""
    why: str
