"""Exchange: sends each gradient as soon as backward has made it, and brings its average before backward returns.

A hook of each parameter begins pushpull on the gradient's own memory; a callback at the end of backward waits for all. Every
worker pushes every key once in a round: for parameters that its backward did not reach it pushes zeros, and a small key of
counts says which parameters any worker has reached. The gradient of one that nobody reached stays as it is, since Adam and
weight decay tell None from zeros. A worker whose data has ended pushes zeros as well (follow), and does not count in averages.
"""
from typing import Any, Iterable, Optional

import torch

from ..errors import FailedPrecondition
from ..kvstore import KVStore
from ..optim import Compression
from . import rows
from .gradients import gradient_of, hook_of, require_names
from .process import set_compression

USED = "used parameters"


class Exchange:
    """The gradients of named parameters, over one store that nothing else uses."""

    def __init__(self, parameters: Iterable[tuple[str, torch.nn.Parameter]], store: KVStore, is_average: bool, passes: int,
                 compression: Optional[Compression]) -> None:
        self.store, self.is_average, self.passes = store, is_average, passes
        self.parameters = [(name, parameter) for name, parameter in parameters if parameter.requires_grad]
        require_names(self.parameters)
        self._passes_done = 0
        self._is_held = False  # no_sync: this backward is not exchanged
        self._reached: set[int] = set()  # the parameters that this backward has reached
        self._gathered: set[int] = set()  # those that backward has reached since the last exchange
        self._pending: dict[int, Any] = {}
        self._counts = torch.zeros(len(self.parameters) + 1)  # workers that reached each parameter, and those that have data
        self._zeros: dict[int, torch.Tensor] = {}
        names = [name for name, _ in self.parameters]
        store.init([*names, USED], [*(torch.zeros_like(p, memory_format=torch.contiguous_format).detach().cpu() for _, p in self.parameters),
                                    self._counts])
        set_compression(store, compression)
        self._hooks = [hook_of(parameter, self._on_gradient, i) for i, (_, parameter) in enumerate(self.parameters)]

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
            rows.reach()
        self._reached.add(i)
        self._gathered.add(i)
        if not self._is_held and self._passes_done + 1 == self.passes:
            self._begin(i, gradient_of(*self.parameters[i]))

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
        self._finish(has_data=True)

    def complete(self) -> None:
        """Exchanges what backward has gathered, where a step has fewer backward() than `passes`."""
        if self._passes_done > 0:
            for i in sorted(self._gathered):
                self._begin(i, gradient_of(*self.parameters[i]))
            self._finish(has_data=True)

    def follow(self) -> bool:
        """Takes part in one step of the workers that have data. Returns whether there was one; if so, the gradients are theirs."""
        for _, parameter in self.parameters:
            parameter.grad = None
        self._finish(has_data=False)
        has_step = bool(self._counts[-1] > 0)
        if has_step:
            rows.push_nothing(self.passes)
        return has_step

    def _finish(self, has_data: bool) -> None:
        """Brings the round to its end."""
        self._passes_done = 0
        self._gathered.clear()
        try:
            absent = [i for i in range(len(self.parameters)) if i not in self._pending]
            self._counts.fill_(1)
            self._counts[absent] = 0
            self._counts[-1] = float(has_data)
            for i in absent:
                self._begin(i, self._standing_in(i))
            used = self.store.pushpull_async(USED, self._counts, priority=1, uncompressed=True)
            for pending in self._pending.values():
                pending.wait()
            used.wait()
        finally:
            self._pending.clear()
        for i in absent:
            if self._counts[i] > 0 and self.parameters[i][1].grad is None:
                self.parameters[i][1].grad = self._zeros.pop(i)
        if self.is_average and 0 < self._counts[-1] < self.store.num_workers:
            self._divide_by_those_with_data()

    def _divide_by_those_with_data(self) -> None:
        """The servers have divided by the number of all workers."""
        for i, (_, parameter) in enumerate(self.parameters):
            if self._counts[i] > 0 and parameter.grad is not None:
                parameter.grad *= self.store.num_workers / float(self._counts[-1])

    def _standing_in(self, i: int) -> torch.Tensor:
        """What a parameter pushes that this backward did not reach: its gradient of before, or zeros."""
        parameter = self.parameters[i][1]
        if parameter.grad is not None:
            return gradient_of(*self.parameters[i])
        if i not in self._zeros:
            self._zeros[i] = torch.zeros_like(parameter, memory_format=torch.contiguous_format).detach()
        return self._zeros[i].zero_()
