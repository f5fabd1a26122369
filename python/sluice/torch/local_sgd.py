"""Training with little communication: workers take many steps by themselves between two exchanges.

A worker's pseudo-gradient is what its parameters have moved since the last common ones: common - own. Servers average those
of all workers and update the common parameters by an outer optimizer, and every worker goes on from there.

DiLoCo (arXiv 2311.08105) takes SGD with Nesterov's momentum as the outer optimizer; LocalSGD (arXiv 1805.09767) takes the
mean of the parameters. Streaming by fragments, which come some steps later and are mixed into what the worker has computed
meanwhile, is arXiv 2501.18512.
"""
from typing import Any, Iterable, Optional, Union

import torch

from ..errors import InvalidArgument
from ..optim import NAG, SGD, Compression, DelayedNAG, Optimizer
from .gradients import require_same
from .process import new_store, set_compression
from .sync import broadcast_parameters


class _Fragment:
    """Parameters that are exchanged together, at `place` steps of each sync_every."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.names: list[str] = []
        self.parameters: list[torch.nn.Parameter] = []
        self.common: list[torch.Tensor] = []  # what all workers had after the last exchange
        self.arriving: list[torch.Tensor] = []  # pseudo-gradients, in whose place the next common parameters come
        self.pending: Optional[Any] = None
        self.due = 0  # the step at which they are taken over


class DiLoCo:
    """Exchanges the parameters of `model`, a module or its named parameters, in every sync_every-th step.

        outer = st.DiLoCo(model, sync_every=100)
        for batch in data:
            inner_optimizer.zero_grad(); loss(model(batch)).backward(); inner_optimizer.step(); outer.step()
        outer.finish()

    All workers begin with rank 0's parameters and buffers and make the same number of steps. The inner optimizer is any, and its states
    stay on the worker. `outer` is the servers' optimizer, NAG(0.7, momentum=0.9) by default, in an async store DelayedNAG. With fragments=n parameters are exchanged in n parts, a part in
    every (sync_every / n)-th step, which lowers the peak of traffic n times. With delay=d what was sent at a step is awaited d
    steps later, and no step waits for the network; the parameters become alpha * own + (1 - alpha) * common.
    `compression` is for pseudo-gradients, as for gradients.

    store="dist_async": servers update at each worker's push, and a worker goes on with the parameters of that moment. Each
    push counts 1 / workers, as in the average.
    """

    def __init__(self, model: Union[torch.nn.Module, Iterable[tuple[str, torch.nn.Parameter]]], sync_every: int, outer: Optional[Optimizer] = None,
                 fragments: int = 1, delay: int = 0, alpha: float = 0.0, compression: Optional[Compression] = None, store: str = "dist_sync") -> None:
        named = dict(model.named_parameters() if isinstance(model, torch.nn.Module) else model)
        parameters = [(name, parameter) for name, parameter in named.items() if parameter.requires_grad]
        self._require(parameters, sync_every, fragments, delay, alpha)
        self.sync_every, self.delay, self.alpha = sync_every, delay, alpha
        self._steps = 0
        broadcast_parameters(model.state_dict() if isinstance(model, torch.nn.Module) else named)
        self._fragments = _fragments_of(parameters, fragments, sync_every)
        self._store = new_store(store)
        require_same(self._store, parameters)
        for fragment in self._fragments:
            self._store.init(fragment.names, fragment.common)
        self._store.set_optimizer(outer if outer is not None else (DelayedNAG if "async" in store else NAG)(0.7, momentum=0.9))
        set_compression(self._store, compression)

    @staticmethod
    def _require(parameters: list[tuple[str, torch.nn.Parameter]], sync_every: int, fragments: int, delay: int, alpha: float) -> None:
        if not parameters:
            raise InvalidArgument("there is no parameter that takes a gradient")
        if sync_every < 1:
            raise InvalidArgument(f"sync_every is {sync_every}; it is at least 1")
        if not 1 <= fragments <= min(len(parameters), sync_every):
            raise InvalidArgument(f"fragments is {fragments}; it is from 1 to {min(len(parameters), sync_every)}, the number of parameters or "
                                  "sync_every")
        if not 0 <= delay < sync_every:
            raise InvalidArgument(f"delay is {delay}; it is from 0 to {sync_every - 1}, below sync_every")
        if not 0 <= alpha <= 1:
            raise InvalidArgument(f"alpha is {alpha}; it is from 0 to 1")

    def step(self) -> None:
        """Follows each step of the inner optimizer. What fails is raised here."""
        self._steps += 1
        for fragment in self._fragments:
            if fragment.pending is not None and fragment.due == self._steps:
                self._take(fragment)
        for fragment in self._fragments:
            if self._steps % self.sync_every == fragment.place % self.sync_every:
                self._send(fragment)
        if self.delay == 0:
            self._take_all()

    def finish(self) -> None:
        """Takes over what is under way. The parameters that every worker then has in common are those of the last exchanges."""
        self._take_all()

    def _take_all(self) -> None:
        for fragment in self._fragments:
            if fragment.pending is not None:
                self._take(fragment)

    def _send(self, fragment: _Fragment) -> None:
        with torch.no_grad():
            for arriving, common, parameter in zip(fragment.arriving, fragment.common, fragment.parameters):
                torch.sub(common, parameter.cpu(), out=arriving)
        fragment.due = self._steps + self.delay
        fragment.pending = self._store.pushpull_async(fragment.names, fragment.arriving, divisor=self._store.num_workers)

    def _take(self, fragment: _Fragment) -> None:
        pending, fragment.pending = fragment.pending, None
        assert pending is not None
        pending.wait()
        fragment.common, fragment.arriving = fragment.arriving, fragment.common
        with torch.no_grad():
            for common, parameter in zip(fragment.common, fragment.parameters):
                parameter.copy_(common if self.alpha == 0 else common.lerp(parameter.cpu(), self.alpha))


class LocalSGD(DiLoCo):
    """Every sync_every-th step gives each worker the mean of all workers' parameters."""

    def __init__(self, model: Union[torch.nn.Module, Iterable[tuple[str, torch.nn.Parameter]]], sync_every: int, fragments: int = 1, delay: int = 0,
                 alpha: float = 0.0, compression: Optional[Compression] = None) -> None:
        super().__init__(model, sync_every, SGD(1.0), fragments, delay, alpha, compression)


def _fragments_of(parameters: list[tuple[str, torch.nn.Parameter]], count: int, sync_every: int) -> list[_Fragment]:
    """Cuts the parameters, in their order, into `count` parts of about as many elements, none empty."""
    made = [_Fragment(place=(i + 1) * sync_every // count) for i in range(count)]
    total = sum(parameter.numel() for _, parameter in parameters)
    before, place = 0, -1
    for i, (name, parameter) in enumerate(parameters):
        middle = before + parameter.numel() / 2
        least, most = max(place, count - (len(parameters) - i)), min(place + 1, count - 1)
        place = min(max(int(middle * count / max(total, 1)), least), most)
        fragment = made[place]
        fragment.names.append(name)
        fragment.parameters.append(parameter)
        value = parameter.detach().cpu().contiguous().clone()
        fragment.common.append(value)
        fragment.arriving.append(torch.empty_like(value))
        before += parameter.numel()
    return made
