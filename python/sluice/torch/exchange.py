"""Exchange: sends each gradient as soon as backward has made it, and brings its average before backward returns.

A hook of each parameter begins pushpull on the gradient's own memory; a callback at the end of backward waits for all. Every
worker pushes every key once in a round: for parameters that its backward did not reach it pushes zeros, and a small key of
counts says which parameters any worker has reached. The gradient of one that nobody reached stays as it is, since Adam and
weight decay tell None from zeros.
"""
from typing import Any, Iterable, Optional

import torch

from ..errors import FailedPrecondition, InvalidArgument
from ..kvstore import KVStore
from ..optim import Compression

USED = "used parameters"


class Exchange:
    """The gradients of named parameters, over one store that nothing else uses."""

    def __init__(self, parameters: Iterable[tuple[str, torch.nn.Parameter]], store: KVStore, is_average: bool, passes: int,
                 compression: Optional[Compression]) -> None:
        self.store, self.is_average, self.passes = store, is_average, passes
        self.parameters = [(name, parameter) for name, parameter in parameters if parameter.requires_grad]
        _require_names(self.parameters)
        self._passes_done = 0
        self._is_held = False  # no_sync: this backward is not exchanged
        self._reached: set[int] = set()  # the parameters that this backward has reached
        self._pending: dict[int, Any] = {}
        self._counts = torch.zeros(len(self.parameters))
        self._zeros: dict[int, torch.Tensor] = {}
        names = [name for name, _ in self.parameters]
        store.init([*names, USED], [*(torch.zeros_like(p, memory_format=torch.contiguous_format).detach().cpu() for _, p in self.parameters),
                                    self._counts])
        if compression is not None:
            store.set_compression(compression)
        self._hooks = [_hook_of(parameter, self._on_gradient, i) for i, (_, parameter) in enumerate(self.parameters)]

    def close(self) -> None:
        """Takes the hooks away."""
        for hook, _ in self._hooks:
            hook.remove()

    def _on_gradient(self, i: int) -> None:
        """Runs when backward has added to the gradient of a parameter."""
        if i in self._reached:
            raise FailedPrecondition(f"parameter {self.parameters[i][0]} got a second gradient before backward() had ended: an earlier "
                                     "backward() was cut off by an exception, or the module runs twice in this one; after the first the "
                                     "job cannot go on, since the other workers wait for its gradients")
        if not self._reached:
            torch.autograd.Variable._execution_engine.queue_callback(self._on_end)
        self._reached.add(i)
        if not self._is_held and self._passes_done + 1 == self.passes:
            self._begin(i, _gradient_of(*self.parameters[i]))

    def _begin(self, i: int, gradient: torch.Tensor) -> None:
        divisor = self.store.num_workers if self.is_average else 1
        self._pending[i] = self.store.pushpull_async(self.parameters[i][0], gradient, priority=-i, divisor=divisor)

    def _on_end(self) -> None:
        """Runs at the end of backward; what it raises leaves backward()."""
        self._reached.clear()
        if self._is_held:
            return
        self._passes_done += 1
        if self._passes_done < self.passes:
            return
        self._passes_done = 0
        try:
            self._finish()
        finally:
            self._pending.clear()

    def _finish(self) -> None:
        absent = [i for i in range(len(self.parameters)) if i not in self._pending]
        self._counts.fill_(1)
        self._counts[absent] = 0
        for i in absent:
            self._begin(i, self._standing_in(i))
        used = self.store.pushpull_async(USED, self._counts, priority=1, uncompressed=True)
        for pending in self._pending.values():
            pending.wait()
        used.wait()
        for i in absent:
            if self._counts[i] > 0 and self.parameters[i][1].grad is None:
                self.parameters[i][1].grad = self._zeros.pop(i)

    def _standing_in(self, i: int) -> torch.Tensor:
        """What a parameter pushes that this backward did not reach: its gradient of before, or zeros."""
        parameter = self.parameters[i][1]
        if parameter.grad is not None:
            return _gradient_of(*self.parameters[i])
        if i not in self._zeros:
            self._zeros[i] = torch.zeros_like(parameter, memory_format=torch.contiguous_format).detach()
        return self._zeros[i].zero_()


def _require_names(parameters: list[tuple[str, torch.nn.Parameter]]) -> None:
    names = [name for name, _ in parameters]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidArgument(f"the name {repeated[0]!r} belongs to two parameters; every parameter needs a name of its own")
    if not names:
        raise InvalidArgument("there is no parameter that takes a gradient")


def _gradient_of(name: str, parameter: torch.nn.Parameter) -> torch.Tensor:
    """The gradient as memory that can be sent and written."""
    gradient = parameter.grad
    if gradient is None or gradient.is_sparse:
        raise InvalidArgument(f"the gradient of {name} is sparse; sluice.KVStore.push_rows sends rows")
    if gradient.device.type != "cpu":
        raise InvalidArgument(f"the gradient of {name} is on {gradient.device}; gradients on the CPU are exchanged")
    if not gradient.is_contiguous():
        gradient = parameter.grad = gradient.contiguous()
    return gradient


def _hook_of(parameter: torch.nn.Parameter, call: Any, i: int) -> tuple[Any, Any]:
    """A hook that runs after a gradient has been added up, and what it has to keep alive."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):  # since PyTorch 2.1
        return parameter.register_post_accumulate_grad_hook(lambda _: call(i)), None
    accumulates = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    return accumulates.register_hook(lambda *_: call(i)), accumulates
