"""Values that all workers share: broadcasts of rank 0's, and sums."""
import io
import itertools
from typing import Any, Iterable, Mapping, Optional, Union

import torch

from ..errors import InvalidArgument
from . import process

_calls = itertools.count()  # keys live as long as the job, so that each call has keys of its own

Named = Union[Mapping[str, Any], Iterable[tuple[str, Any]]]


def _host(tensor: torch.Tensor) -> torch.Tensor:
    """The values of a tensor as memory that can be sent and written."""
    return tensor.detach().contiguous().cpu()


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as bytes: a broadcast moves every dtype so."""
    return tensor.reshape(-1).view(torch.uint8)


def _broadcast_all(tensors: list[torch.Tensor], root_rank: int) -> None:
    """Writes rank `root_rank`'s values into the tensors of all workers."""
    if root_rank != 0:
        raise InvalidArgument(f"root_rank is {root_rank}; values come from worker 0")
    filled = [tensor for tensor in tensors if tensor.numel() > 0]
    values = [_host(tensor).clone() for tensor in filled]
    call = next(_calls)
    if filled:
        process.store().broadcast([f"broadcast {call}.{i}" for i in range(len(values))], [_as_bytes(value) for value in values])
    with torch.no_grad():
        for tensor, value in zip(filled, values):
            tensor.copy_(value)


def broadcast_(tensor: torch.Tensor, root_rank: int = 0, name: Optional[str] = None) -> torch.Tensor:
    """Overwrites the tensor by rank 0's and returns it. All workers call it in one order."""
    _broadcast_all([tensor], root_rank)
    return tensor


def broadcast(tensor: torch.Tensor, root_rank: int = 0, name: Optional[str] = None) -> torch.Tensor:
    """Returns rank 0's tensor."""
    return broadcast_(tensor.detach().clone(), root_rank)


def broadcast_parameters(params: Named, root_rank: int = 0) -> None:
    """Overwrites tensors by rank 0's: a model's state_dict() or named_parameters()."""
    named = dict(params)
    _broadcast_all([value for _, value in sorted(named.items()) if isinstance(value, torch.Tensor)], root_rank)


def broadcast_object(value: Any, root_rank: int = 0, name: Optional[str] = None) -> Any:
    """Returns rank 0's object, which travels as torch.save writes it."""
    store = process.store()
    file = io.BytesIO()
    if store.rank == root_rank:
        torch.save(value, file)
    length = broadcast(torch.tensor([file.getbuffer().nbytes]), root_rank)
    data = torch.zeros(int(length), dtype=torch.uint8)
    if store.rank == root_rank:
        data = torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)
    broadcast_(data, root_rank)
    return torch.load(io.BytesIO(data.numpy().tobytes()))


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int = 0) -> None:
    """Gives all workers rank 0's state and settings of the optimizer."""
    state = broadcast_object(optimizer.state_dict(), root_rank)
    if process.rank() != root_rank:
        optimizer.load_state_dict(state)


def allreduce_(tensor: torch.Tensor, average: bool = True, name: Optional[str] = None, op: Optional[str] = None) -> torch.Tensor:
    """Overwrites the tensor by its average over the workers, or its sum, and returns it. With a name, all workers give the same
    name, and a name can be used again for tensors of one shape; without one, all workers call in one order."""
    if op is not None:
        average = op == "average"
    store = process.store()
    value = _host(tensor)
    key = f"allreduce {next(_calls)}" if name is None else f"allreduce of {name}"
    if key not in _made:
        store.init(key, torch.zeros_like(value))
        _made.add(key)
    store.pushpull(key, value, divisor=store.num_workers if average else 1)
    if value.data_ptr() != tensor.data_ptr():
        with torch.no_grad():
            tensor.copy_(value)
    return tensor


_made: set[str] = set()


def allreduce(tensor: torch.Tensor, average: bool = True, name: Optional[str] = None, op: Optional[str] = None) -> torch.Tensor:
    """Returns the average of the workers' tensors, or their sum."""
    return allreduce_(tensor.detach().clone(), average, name, op)
