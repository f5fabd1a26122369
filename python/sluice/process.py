"""This process as a part of a job: how it joins, and how it ends."""
import atexit
import os
import sys
import threading
import types
from typing import Any, Optional, Type

from . import _core
from .errors import Error

_lock = threading.Lock()
_is_ready = False
_has_failed = False


def init() -> None:
    """Reads the environment once, and sets up logging and signals. The first create() calls it.

    In a process with DMLC_ROLE=scheduler or server it plays that role and does not return.
    """
    global _is_ready
    with _lock:
        if _is_ready:
            return
        _core.init(os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python")
        _is_ready = True
    atexit.register(_at_exit)
    sys.excepthook = _Reports(sys.excepthook)


class _Reports:
    """Tells the job which exception has ended this worker, after the former hook has shown it."""

    def __init__(self, former: Any) -> None:
        self._former = former

    def __call__(self, kind: Type[BaseException], error: BaseException, trace: Optional[types.TracebackType]) -> None:
        global _has_failed
        self._former(kind, error, trace)
        _has_failed = True
        _core.fail(f"{kind.__name__}: {error}" if str(error) else kind.__name__)


def _at_exit() -> None:
    if _has_failed:
        return
    try:
        finish()
    except Error as error:  # what this worker has pushed cannot arrive any more
        _core.fail(f"it could not leave the job in good order: {error}")
        raise


def finish() -> None:
    """Leaves the job in good order, once the servers have what this worker pushed. A program's end calls it."""
    if _is_ready:
        _core.finish()


def in_job() -> bool:
    """Returns whether a launcher has started this process as a part of a job."""
    return bool(_core.job()["in_job"])


def rank() -> int:
    """Returns this worker's number in its job, which it joins if it has not yet, from 0; 0 outside of a job."""
    init()
    return int(_core.rank())


def size() -> int:
    """Returns how many workers the job has; 1 outside of a job."""
    return int(_core.job()["num_workers"])
