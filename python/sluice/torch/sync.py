"""Values that all workers share: broadcasts of rank 0's, and sums."""
import io
import itertools
from typing import Any, Iterable, Mapping, Optional, Union

import torch

from ..errors import InvalidArgument
from . import process

# Keys live as long as the job, so calls use them again: the calls on tensors of one shape take turns on a few keys, since all
# workers call in one order.
TURNS = 8
_calls: dict[str, "itertools.count[int]"] = {}
_made: set[str] = set()

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
    _broadcast_bytes([_as_bytes(value) for value in values])
    with torch.no_grad():
        for tensor, value in zip(filled, values):
            if not torch.equal(tensor, value.to(tensor.device)):
                tensor.copy_(value)


def _broadcast_bytes(values: list[torch.Tensor]) -> None:
    """Writes rank 0's bytes into those of all workers. A key that exists takes them in a round, to which the others add zeros: so
    nobody gets those of a later call."""
    store = process.store()
    keys = [f"broadcast {i} of {value.numel()} bytes" for i, value in enumerate(values)]
    new = [i for i, key in enumerate(keys) if key not in _made]
    again = [i for i, key in enumerate(keys) if key in _made]
    if new:
        store.broadcast([keys[i] for i in new], [values[i] for i in new])
        _made.update(keys[i] for i in new)
    if again:
        if store.rank != 0:
            for i in again:
                values[i].zero_()
        store.pushpull([keys[i] for i in again], [values[i] for i in again])


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
    length = int(broadcast(torch.tensor([file.getbuffer().nbytes]), root_rank))
    data = torch.zeros(max(1024, 1 << (length - 1).bit_length()), dtype=torch.uint8)  # few sizes, for few keys
    if store.rank == root_rank:
        data[:length] = torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)
    broadcast_(data, root_rank)
    return torch.load(io.BytesIO(data[:length].numpy().tobytes()), weights_only=False)


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int = 0) -> None:
    """Gives all workers rank 0's state and settings of the optimizer."""
    state = broadcast_object(optimizer.state_dict(), root_rank)
    if process.rank() != root_rank:
        optimizer.load_state_dict(state)


class Handle:
    """A sum that is under way to a tensor."""

    def __init__(self, tensor: torch.Tensor, value: torch.Tensor, pending: Any) -> None:
        self._tensor, self._value, self._pending = tensor, value, pending

    def is_done(self) -> bool:
        return bool(self._pending.done())

    def wait(self) -> torch.Tensor:
        self._pending.wait()
        if self._value.data_ptr() != self._tensor.data_ptr():
            with torch.no_grad():
                self._tensor.copy_(self._value)
        return self._tensor


def allreduce_async_(tensor: torch.Tensor, average: bool = True, name: Optional[str] = None, op: Optional[str] = None) -> Handle:
    """Begins allreduce_; synchronize() of what it returns waits. The tensor must not be used before."""
    if op not in (None, "average", "sum"):
        raise InvalidArgument(f"op is {op!r}; it is sluice.torch.Average or sluice.torch.Sum")
    store = process.store()
    value = _host(tensor)
    key = f"allreduce of {name}"
    if name is None:
        kind = f"allreduce of {value.dtype} {tuple(value.shape)}"
        key = f"{kind}, {next(_calls.setdefault(kind, itertools.count())) % TURNS}"
    if key not in _made:
        store.init(key, torch.zeros_like(value))
        _made.add(key)
    is_average = average if op is None else op == "average"
    return Handle(tensor, value, store.pushpull_async(key, value, divisor=store.num_workers if is_average else 1))


def allreduce_async(tensor: torch.Tensor, average: bool = True, name: Optional[str] = None, op: Optional[str] = None) -> Handle:
    """Begins allreduce; synchronize() of what it returns waits, and returns the result."""
    return allreduce_async_(tensor.detach().clone(), average, name, op)


def poll(handle: Handle) -> bool:
    """Returns whether synchronize() would return at once."""
    return handle.is_done()


def synchronize(handle: Handle) -> torch.Tensor:
    """Waits for an asynchronous call, and returns its tensor."""
    return handle.wait()


def allreduce_(tensor: torch.Tensor, average: bool = True, name: Optional[str] = None, op: Optional[str] = None) -> torch.Tensor:
    """Overwrites the tensor by its average over the workers, or its sum, and returns it. With a name, all workers give the same
    name, and a name can be used again for tensors of one shape; without one, all workers call in one order."""
    return allreduce_async_(tensor, average, name, op).wait()


def allreduce(tensor: torch.Tensor, average: bool = True, name: Optional[str] = None, op: Optional[str] = None) -> torch.Tensor:
    """Returns the average of the workers' tensors, or their sum."""
    return allreduce_(tensor.detach().clone(), average, name, op)


push_pull = allreduce  # BytePS's name
