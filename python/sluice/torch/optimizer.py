"""DistributedOptimizer: any optimizer of PyTorch, on gradients that are averaged over the workers."""
import contextlib
from typing import Any, Iterable, Iterator, Optional

import torch

from ..errors import InvalidArgument
from ..optim import Compression
from .exchange import Exchange
from .process import new_store

Average = "average"
Sum = "sum"


class _Distributed:
    """What a DistributedOptimizer has beside its own class."""

    _exchange: Exchange

    def synchronize(self) -> None:
        """Does nothing: gradients are averaged when backward() returns. Scripts of Horovod call it."""

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Does nothing, as synchronize()."""
        yield

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Sets how many backward() a step has; gradients are exchanged in the last one."""
        self._exchange.passes = _positive(passes)


def DistributedOptimizer(optimizer: torch.optim.Optimizer, named_parameters: Optional[Iterable[tuple[str, torch.nn.Parameter]]] = None,
                         compression: Optional[Compression] = None, backward_passes_per_step: int = 1,
                         op: str = Average) -> torch.optim.Optimizer:
    """Returns `optimizer` itself, whose gradients are from now on averaged over the workers (or summed, op=Sum).

    The last backward() of a step returns with the averages in .grad, so that clipping, GradScaler and logging see them; the
    gradients of the last layers travel while the first ones are computed. What fails is raised by backward(). All workers make
    their optimizers in one order, with the same parameters. Without `named_parameters`, parameters are named by their places.
    """
    if op not in (Average, Sum):
        raise InvalidArgument(f"op is {op!r}; it is sluice.torch.Average or sluice.torch.Sum")
    if isinstance(optimizer, _Distributed):
        raise InvalidArgument("the optimizer is distributed already")
    owned = {id(parameter): f"parameter {group}.{i}" for group, entry in enumerate(optimizer.param_groups) for i, parameter in enumerate(entry["params"])}
    parameters = [parameter for entry in optimizer.param_groups for parameter in entry["params"]]
    names = dict(owned)
    if named_parameters is not None:
        names = {id(parameter): name for name, parameter in named_parameters}
        missing = [owned[id(parameter)] for parameter in parameters if id(parameter) not in names]
        if missing:
            raise InvalidArgument(f"named_parameters lacks {missing[0]} of the optimizer (its group and place there)")
    optimizer._exchange = Exchange([(names[id(parameter)], parameter) for parameter in parameters], new_store(), op == Average,
                                   _positive(backward_passes_per_step), compression)
    kind = type(optimizer)
    optimizer.__class__ = type(kind.__name__, (_Distributed, kind), {})
    return optimizer


def _positive(passes: int) -> int:
    if passes < 1:
        raise InvalidArgument(f"backward_passes_per_step is {passes}; it is at least 1")
    return passes
