"""Exchange: sends each gradient as soon as backward has made it, and brings its average before backward returns.

A hook of each parameter begins pushpull on the gradient's own memory; a callback at the end of backward waits for all. Every
worker pushes every key once in a round: for parameters that its backward did not reach it pushes zeros, and a small key of
counts says of which parameters any worker has a gradient. Where nobody has one it stays None, since Adam and weight decay tell
None from zeros. A worker whose data has ended pushes zeros as well (follow), and does not count in averages.
"""
from typing import Any, Callable, Iterable, Optional, Sequence

import torch

from ..kvstore import KVStore
from ..optim import Compression
from . import embedding
from .gradients import gradient_of, hook_of, require_names, require_same, second_gradient
from .process import set_compression

USED = "used parameters"
TABLE_ROUNDS, WITH_DATA = -2, -1  # places in the counts


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
        # How many workers have a gradient of each parameter; how many rounds of tables they had, and how many have data.
        self._counts = torch.zeros(len(self.parameters) + 2)
        self._absent: list[int] = []  # parameters of the round that nothing has pushed before its end
        self._used: Any = None
        self._zeros: dict[int, torch.Tensor] = {}
        require_same(store, self.parameters)
        names = [name for name, _ in self.parameters]
        store.init([*names, USED], [*(torch.zeros_like(p, memory_format=torch.contiguous_format).detach().cpu() for _, p in self.parameters),
                                    self._counts])
        set_compression(store, compression)
        self._hooks = [hook_of(parameter, self._on_gradient, i) for i, (_, parameter) in enumerate(self.parameters)]

    def _on_gradient(self, i: int) -> None:
        """Runs when backward has added to the gradient of a parameter."""
        if i in self._reached:
            raise second_gradient(self.parameters[i][0])
        if not self._reached:
            _reached_now.append(self)
            torch.autograd.Variable._execution_engine.queue_callback(_on_end)
            embedding.reach()
        self._reached.add(i)
        self._gathered.add(i)
        if not self._is_held and self._passes_done + 1 == self.passes:
            self._begin(i, gradient_of(*self.parameters[i]))

    def _begin(self, i: int, gradient: torch.Tensor) -> None:
        divisor = self.store.num_workers if self.is_average else 1
        self._pending[i] = self.store.pushpull_async(self.parameters[i][0], gradient, priority=-i, divisor=divisor)

    def _end_backward(self) -> bool:
        """Begins what is left of the round, if this backward ends one; returns whether it does."""
        self._reached.clear()
        if self._is_held:
            return False
        self._passes_done += 1
        if self._passes_done < self.passes:
            return False
        self.begin_round(has_data=True)
        return True

    def complete(self) -> None:
        """Exchanges what backward has gathered, where a step has fewer backward() than `passes`."""
        if self._passes_done > 0:
            embedding.require_complete()
            for i in sorted(self._gathered):
                self._begin(i, gradient_of(*self.parameters[i]))
            self.begin_round(has_data=True)
            self.end_round()

    def begin_round(self, has_data: bool) -> None:
        """Begins a round, or what is left of it: of a worker with data, or of one that takes part in the others' step."""
        self._passes_done = 0
        self._gathered.clear()
        if not has_data:
            for _, parameter in self.parameters:
                parameter.grad = None
        self._absent = [i for i in range(len(self.parameters)) if i not in self._pending]
        for i in range(len(self.parameters)):
            self._counts[i] = float(i in self._pending or self.parameters[i][1].grad is not None)
        self._counts[WITH_DATA] = float(has_data)
        self._counts[TABLE_ROUNDS] = float(embedding.take_rounds() if has_data else 0)
        for i in self._absent:
            self._begin(i, self._standing_in(i))
        self._used = self.store.pushpull_async(USED, self._counts, priority=1, uncompressed=True)

    def end_round(self) -> int:
        """Waits for the round, and returns how many workers had data in it."""
        try:
            for pending in self._pending.values():
                pending.wait()
            self._used.wait()
        finally:
            self._pending.clear()
        for i in self._absent:
            if self._counts[i] > 0 and self.parameters[i][1].grad is None:
                self.parameters[i][1].grad = self._zeros.pop(i)
        if self.is_average and 0 < self._counts[WITH_DATA] < self.store.num_workers:
            self._divide_by_those_with_data()
        return int(self._counts[WITH_DATA])

    @property
    def table_rounds(self) -> int:
        """How many rounds of tables the workers with data had before the last round, all together."""
        return int(self._counts[TABLE_ROUNDS])

    def _divide_by_those_with_data(self) -> None:
        """The servers have divided by the number of all workers."""
        for i, (_, parameter) in enumerate(self.parameters):
            if self._counts[i] > 0 and parameter.grad is not None:
                parameter.grad *= self.store.num_workers / float(self._counts[WITH_DATA])

    def _standing_in(self, i: int) -> torch.Tensor:
        """What a parameter pushes that this backward did not reach: its gradient of before, or zeros."""
        parameter = self.parameters[i][1]
        if parameter.grad is not None:
            return gradient_of(*self.parameters[i])
        if i not in self._zeros:
            self._zeros[i] = torch.zeros_like(parameter, memory_format=torch.contiguous_format).detach()
        return self._zeros[i].zero_()


_reached_now: list[Exchange] = []  # by the backward that runs


def _on_end() -> None:
    """Runs at the end of backward, once for each exchange that it has reached; the first does the work. All rounds begin before one
    is awaited, as workers reach their exchanges in different orders. What it raises leaves backward()."""
    reached = _reached_now[:]
    _reached_now.clear()
    if reached:
        embedding.end_backward()
    for exchange in [one for one in reached if one._end_backward()]:
        exchange.end_round()


def follow(exchanges: Sequence[Exchange], steps: Sequence[Callable[[], Any]]) -> bool:
    """Takes part in one step of the workers that have data, in each exchange, and makes the steps that belong to them. Returns
    whether there was one."""
    for exchange in exchanges:  # workers may begin them in another order
        exchange.begin_round(has_data=False)
    with_data, rounds, answered = 0, 0, 0
    for exchange, step in zip(exchanges, steps):
        with_data = exchange.end_round()
        if with_data > 0:
            rounds += exchange.table_rounds
            embedding.end_backwards(rounds // with_data - answered)  # the next exchange may wait for them
            answered = rounds // with_data
            step()
    return with_data > 0
