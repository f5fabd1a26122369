"""comm_hook: PyTorch's own DistributedDataParallel, whose buckets of gradients go through servers of Sluice."""
import concurrent.futures
from typing import Any, Callable, Optional

import torch

from ..kvstore import KVStore
from .process import new_store

Hook = Callable[[Any, Any], "torch.futures.Future[torch.Tensor]"]


def comm_hook(store: Optional[KVStore] = None) -> Hook:
    """Returns what model.register_comm_hook(None, hook) takes: a hook that averages each bucket over the workers of the job.

    `store` is a synchronous store without optimizer that nothing else uses, by default a new one. A key is a bucket's place and
    size, since DDP cuts its buckets anew after the first step. All workers call it in one order.
    """
    from torch.distributed import GradBucket  # type: ignore[attr-defined]  # which not every build has
    kv = new_store() if store is None else store
    made: set[str] = set()
    waiter = concurrent.futures.ThreadPoolExecutor(1, "sluice comm_hook")  # one: buckets are awaited in the order in which they begin

    def hook(_: Any, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:  # the annotations that DDP asks for
        buffer = bucket.buffer()
        key = f"bucket {bucket.index()} of {buffer.numel()} {buffer.dtype}"
        if key not in made:
            kv.init(key, torch.zeros_like(buffer))
            made.add(key)
        pending = kv.pushpull_async(key, buffer, priority=-bucket.index(), divisor=kv.num_workers)
        future: Any = torch.futures.Future()
        waiter.submit(_complete, future, pending, buffer)
        return future.then(_unwrapped)  # in which an exception becomes the future's, so that it leaves backward()

    return hook


def _complete(future: Any, pending: Any, buffer: torch.Tensor) -> None:
    try:
        pending.wait()
    except Exception as error:
        future.set_result((buffer, error))
    else:
        future.set_result((buffer, None))


def _unwrapped(future: Any) -> torch.Tensor:
    buffer, error = future.value()
    if error is not None:
        raise error
    return buffer
