"""DistributedOptimizer: any optimizer of PyTorch, on gradients that are averaged over the workers."""
import contextlib
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence

import torch

from ..errors import FailedPrecondition, InvalidArgument
from ..optim import Compression
from .exchange import Exchange, follow
from .process import new_store
from .server_updates import ServerUpdates

Average = "average"
Sum = "sum"


class _Distributed:
    """What a DistributedOptimizer has beside its own class, however it updates."""

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Does nothing. Scripts of Horovod call it after synchronize()."""
        yield

    def add_param_group(self, group: Any) -> None:
        raise FailedPrecondition("the optimizer is distributed; add groups of parameters before DistributedOptimizer")


class _OnWorkers(_Distributed):
    """Adds what belongs to updates on the workers."""

    _exchange: Exchange

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """The step of the optimizer's own class. Where a step has fewer backward() than it was said to have, gradients are
        averaged here."""
        if closure is None:
            self._exchange.complete()
            return super().step()  # type: ignore[misc]
        call = closure

        def completed() -> Any:
            result = call()
            self._exchange.complete()
            return result
        return super().step(completed)  # type: ignore[misc]

    def synchronize(self) -> None:
        """Averages the gradients of a step that has fewer backward() than it was said to have: before clipping them. After others
        it does nothing, since backward() has returned with the averages."""
        self._exchange.complete()

    def join(self, step: Optional[Callable[[], Any]] = None) -> None:
        """join() of this optimizer alone."""
        join([self], None if step is None else [step])  # type: ignore[list-item]

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Sets how many backward() a step has; gradients are exchanged in the last one."""
        self._exchange.passes = _positive(passes)


class _OnServers(_Distributed):
    """Has updates on the servers in place of the own class's step()."""

    _updates: ServerUpdates

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Brings the parameters that the servers have updated. Returns what `closure` returns, which is called first."""
        result = None
        if closure is not None:
            with torch.enable_grad():
                result = closure()
        self._updates.step()
        return result

    def synchronize(self) -> None:
        """Returns when every parameter is that of the last step(): with overlap_forward, before the program reads parameters
        outside of a forward."""
        self._updates.await_all()

    def set_parameters(self) -> None:
        """Gives the servers, and all workers, rank 0's parameters: after the program has written them, for example from a
        checkpoint. All workers call it."""
        self._updates.set_parameters()

    def join(self, step: Optional[Callable[[], Any]] = None) -> None:
        raise InvalidArgument("servers that update cannot tell zeros from a worker whose data has ended; join() needs update='worker'")

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Sets how many backward() a step has; gradients are pushed in the last one."""
        self._updates.passes = _positive(passes)

    def save_states(self, path: str) -> None:
        """Rank 0 writes the servers' states of the optimizer as a safetensors file."""
        self._updates.store.save_states(path)

    def load_states(self, path: str) -> None:
        """Rank 0 reads them again. No worker may run backward meanwhile (sluice.torch.barrier)."""
        self._updates.store.load_states(path)


def join(optimizers: Sequence[torch.optim.Optimizer], steps: Optional[Sequence[Callable[[], Any]]] = None) -> None:
    """Is called by a worker whose data has ended: takes part in the steps of those that have data, until all workers have called
    it, so that nobody waits for this one. An average is then one of the workers with data (of rows of a table, one of all
    workers). This worker makes the same steps, and so keeps the same parameters.

    optimizers: all that the others go on with, in the order in which their steps come. steps: what the program does after the
    backward() of each, such as clipping, its step() and a schedule of rates; by default its step().
    """
    calls = [optimizer.step for optimizer in optimizers] if steps is None else list(steps)
    if len(calls) != len(optimizers):
        raise InvalidArgument(f"there are {len(calls)} steps for {len(optimizers)} optimizers")
    exchanges = [optimizer._exchange for optimizer in optimizers if isinstance(optimizer, _OnWorkers)]
    if len(exchanges) != len(optimizers) or not exchanges:
        raise InvalidArgument("join takes DistributedOptimizers with update='worker'")
    while follow(exchanges, calls):
        pass


def DistributedOptimizer(optimizer: torch.optim.Optimizer, named_parameters: Optional[Iterable[tuple[str, torch.nn.Parameter]]] = None,
                         compression: Optional[Compression] = None, backward_passes_per_step: int = 1, op: str = Average,
                         update: str = "worker", store: str = "dist_sync", overlap_forward: Optional[torch.nn.Module] = None) -> torch.optim.Optimizer:
    """Returns `optimizer` itself, whose gradients are from now on averaged over the workers (or summed, op=Sum).

    The last backward() of a step returns with the averages in .grad, so that clipping, GradScaler and logging see them; the
    gradients of the last layers travel while the first ones are computed. What fails is raised by backward(). All workers make
    their optimizers in one order, with the same parameters. Without `named_parameters`, parameters are named by their places.

    update="server": the servers update the parameters, by the formula of `optimizer`: SGD, Adam, AdamW, Adagrad, RMSprop. Its
    states are theirs, all workers begin with rank 0's parameters, and step() brings the new ones (set_parameters() after a
    program has written parameters by itself). .grad stays this worker's, so
    there is no clipping by norm. A parameter that no worker's backward reaches is updated with a gradient of zeros. Rates are
    those at backward(). With store="dist_async" each worker's push is a step of its own, and nobody waits for others. With
    overlap_forward=module step() waits for nothing: a layer's parameters are awaited when its forward begins (synchronize()
    awaits all).
    """
    _require(optimizer, op, update, store, overlap_forward)
    names = _names_of(optimizer, named_parameters)
    passes = _positive(backward_passes_per_step)
    made: Any = optimizer
    kind = type(optimizer)
    if update == "server":
        made._updates = ServerUpdates(optimizer, names, new_store(store), op == Average, passes, compression, overlap_forward)
        made.__class__ = type(kind.__name__, (_OnServers, kind), {})
    else:
        parameters = [(names[id(parameter)], parameter) for entry in optimizer.param_groups for parameter in entry["params"]]
        made._exchange = Exchange(parameters, new_store(store), op == Average, passes, compression)
        made.__class__ = type(kind.__name__, (_OnWorkers, kind), {})
    _replace_counted_step(made)
    return optimizer


def _replace_counted_step(optimizer: Any) -> None:
    """A schedule of rates that was made before has put a function in place of step(), which counts calls and then makes the step
    of the former class."""
    former = vars(optimizer).pop("step", None)
    if former is None:
        return

    def step(*args: Any, **kwargs: Any) -> Any:
        optimizer._step_count = getattr(optimizer, "_step_count", 0) + 1
        optimizer._opt_called = True  # since PyTorch 2.4 in place of the count
        return type(optimizer).step(optimizer, *args, **kwargs)

    vars(step).update(vars(former))
    optimizer.step = step


def _require(optimizer: torch.optim.Optimizer, op: str, update: str, store: str, overlap: Optional[torch.nn.Module]) -> None:
    if op not in (Average, Sum):
        raise InvalidArgument(f"op is {op!r}; it is sluice.torch.Average or sluice.torch.Sum")
    if update not in ("worker", "server"):
        raise InvalidArgument(f"update is {update!r}; it is 'worker' or 'server'")
    if update == "worker" and "async" in store:
        raise InvalidArgument(f"store is {store!r}; workers that update by themselves need a synchronous store, or update='server'")
    if update == "worker" and overlap is not None:
        raise InvalidArgument("overlap_forward needs update='server'")
    if isinstance(optimizer, _Distributed):
        raise InvalidArgument("the optimizer is distributed already")


def _names_of(optimizer: torch.optim.Optimizer, named: Optional[Iterable[tuple[str, torch.nn.Parameter]]]) -> dict[int, str]:
    """The name of each parameter by its id."""
    places = {id(parameter): f"parameter {group}.{i}" for group, entry in enumerate(optimizer.param_groups) for i, parameter in enumerate(entry["params"])}
    if named is None:
        return places
    names = {id(parameter): name for name, parameter in named}
    missing = [place for parameter, place in places.items() if parameter not in names]
    if missing:
        raise InvalidArgument(f"named_parameters lacks {missing[0]} of the optimizer (its group and place there)")
    return names


def _positive(passes: int) -> int:
    if passes < 1:
        raise InvalidArgument(f"backward_passes_per_step is {passes}; it is at least 1")
    return passes
