"""The store that the functions of sluice.torch share, and this worker's place in its job."""
import threading
from typing import Optional

from .. import process
from ..kvstore import KVStore, create
from ..optim import Compression

_lock = threading.Lock()
_store: Optional[KVStore] = None


def init() -> None:
    """Joins the job. All workers call it, or the first function of sluice.torch that they all call."""
    store()


def store() -> KVStore:
    """Returns the store of broadcasts and sums: dist_sync in a job, device in one process."""
    global _store
    with _lock:
        if _store is None:
            _store = new_store()
        return _store


def new_store(type: str = "dist_sync") -> KVStore:
    """Makes a store of this type, or, outside of a job, one that serves this process alone. All workers of a job make their
    stores in one order."""
    process.init()
    return create(type if process.in_job() else "device")


def set_compression(store: KVStore, compression: Optional[Compression]) -> None:
    """Sets how a store's gradients travel. A store of one process sends nothing, so that a script runs without a job as well."""
    if compression is not None and process.in_job():
        store.set_compression(compression)


def rank() -> int:
    """Returns this worker's number in the job, from 0."""
    return int(store().rank)


def size() -> int:
    """Returns the number of workers."""
    return int(store().num_workers)


def barrier() -> None:
    """Waits until every worker has called it as often."""
    store().barrier()


def shutdown() -> None:
    """Leaves the job in good order, as the end of the program does."""
    process.finish()
