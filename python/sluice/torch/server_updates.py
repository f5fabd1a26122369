"""ServerUpdates: the servers update the parameters by the formula of an optimizer of PyTorch.

A hook of each parameter pushes its gradient as soon as backward has made it, and step() brings the new parameters. Every worker
pushes every key once in a round of a synchronous store: zeros for parameters that its backward did not reach. Learning rates are
read in each backward, and sent to the servers when they have changed.
"""
from typing import Any, Callable, NamedTuple, Optional

import torch

from ..errors import FailedPrecondition, InvalidArgument
from ..kvstore import KVStore
from ..optim import NAG, SGD, AdaGrad, Adam, AdamW, Compression, Optimizer, RMSProp
from . import embedding
from .gradients import gradient_of, hook_of, require_names, require_same, second_gradient
from .process import set_compression


class Kind(NamedTuple):
    """What the servers have for a class of torch.optim."""

    fixed: dict[str, Any]  # fields that have to have these values
    alike: tuple[str, ...]  # fields in which all groups have to be alike
    make: Callable[..., Optimizer]  # from a group, with what all kinds take


_FIXED = {"maximize": False, "decoupled_weight_decay": False}


def _adam(kind: type[Adam]) -> Callable[..., Optimizer]:
    return lambda g, **more: kind(beta1=g["betas"][0], beta2=g["betas"][1], epsilon=g["eps"], **more)


KINDS: dict[type, Kind] = {
    torch.optim.SGD: Kind({**_FIXED, "dampening": 0}, ("momentum", "nesterov"),
                          lambda g, **more: (NAG if g["nesterov"] else SGD)(momentum=g["momentum"], **more)),
    torch.optim.Adam: Kind({**_FIXED, "amsgrad": False}, ("betas", "eps"), _adam(Adam)),
    torch.optim.AdamW: Kind({"maximize": False, "amsgrad": False}, ("betas", "eps"), _adam(AdamW)),
    torch.optim.Adagrad: Kind({**_FIXED, "lr_decay": 0, "initial_accumulator_value": 0}, ("eps",), lambda g, **more: AdaGrad(epsilon=g["eps"], **more)),
    torch.optim.RMSprop: Kind({**_FIXED, "centered": False}, ("momentum", "alpha", "eps"),
                              lambda g, **more: RMSProp(momentum=g["momentum"], rho=g["alpha"], epsilon=g["eps"], **more)),
}


def config_of(kind: type, groups: list[dict[str, Any]], names: dict[int, str]) -> Optimizer:
    """Returns the optimizer of the servers that does what `kind`, a class of torch.optim, does with these groups. Groups may
    differ in their rates and weight decays."""
    if kind not in KINDS:
        raise InvalidArgument(f"servers have no {kind.__name__}; they have {', '.join(one.__name__ for one in KINDS)}. Without update='server' any "
                              "optimizer works")
    fixed, alike, make = KINDS[kind]
    for group in groups:
        for field, value in fixed.items():
            if group.get(field, value) != value:
                raise InvalidArgument(f"{field} of {kind.__name__} is {group[field]}; on servers it is {value}")
        for field in alike:
            if group[field] != groups[0][field]:
                raise InvalidArgument(f"groups of parameters differ in {field}: {groups[0][field]} and {group[field]}; on servers they may differ in "
                                      "lr and weight_decay")
    rate = max(float(group["lr"]) for group in groups)
    decay = max(float(group["weight_decay"]) for group in groups)
    multipliers = {names[id(parameter)]: (float(group["lr"]) / rate if rate > 0 else 1.0, group["weight_decay"] / decay if decay > 0 else 1.0)
                   for group in groups for parameter in group["params"]}
    return make(groups[0], learning_rate=rate, wd=decay, multipliers=multipliers)


class ServerUpdates:
    """The parameters of `optimizer` on one store that nothing else uses. names: by id of the parameter."""

    def __init__(self, optimizer: torch.optim.Optimizer, names: dict[int, str], store: KVStore, is_average: bool, passes: int,
                 compression: Optional[Compression], overlap: Optional[torch.nn.Module]) -> None:
        self.store, self.passes = store, passes
        self._is_sync = "async" not in store.type
        # A push of an async store is a step of its own.
        self._divisor = store.num_workers if is_average and self._is_sync else 1
        self._kind, self._optimizer, self._names = type(optimizer), optimizer, names
        self.parameters = [(names[id(p)], p) for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        require_names(self.parameters)
        for name, parameter in self.parameters:
            if not parameter.is_contiguous():
                raise InvalidArgument(f"parameter {name} is not contiguous (strides {parameter.stride()}); on servers it has to be")
        self._keys = [name for name, _ in self.parameters]
        self._values = [parameter.detach() for _, parameter in self.parameters]  # their memory
        self._config = config_of(self._kind, optimizer.param_groups, names)
        self._passes_done = 0
        self._reached: set[int] = set()  # by this backward
        self._gathered: set[int] = set()  # by the backward() of this round
        self._pushed: set[int] = set()  # in this round
        self._arriving: dict[int, Any] = {}
        self._met: set[int] = set()  # parameters whose own layer's forward was called
        require_same(store, self.parameters)
        store.init(self._keys, self._values)
        store.set_optimizer(self._config)
        set_compression(store, compression)
        store.pull(self._keys, self._values)
        self._versions = [parameter._version for _, parameter in self.parameters]
        self._hooks = [hook_of(parameter, self._on_gradient, i) for i, (_, parameter) in enumerate(self.parameters)]
        self._overlapped = self._await_in_forward(overlap)

    def _await_in_forward(self, module: Optional[torch.nn.Module]) -> set[int]:
        """Has the forward of each layer of the module wait for its parameters, and returns which are the module's."""
        places = {id(parameter): i for i, (_, parameter) in enumerate(self.parameters)}
        found: set[int] = set()
        for part in () if module is None else module.modules():
            own = {places[id(p)] for p in part.parameters(recurse=False) if id(p) in places}
            found |= own
            handle = part.register_forward_pre_hook(lambda *_, own=own: self._before_forward(own))
            hooks: Any = part._forward_pre_hooks
            hooks.move_to_end(handle.id, last=False)  # before those that read parameters, as weight_norm's
        return found

    def _before_forward(self, own: set[int]) -> None:
        """A layer may take the parameters of another whose forward it does not call, as MultiheadAttention does. So parameters
        that no forward of their own has asked for are awaited by any."""
        if self._arriving:
            self._await([i for i in self._arriving if i in own or i not in self._met])
        self._met |= own

    def _await(self, which: list[int]) -> None:
        for i in which:
            self._arriving.pop(i).wait()

    def await_all(self) -> None:
        """Returns when every parameter is that of the last step."""
        self._await(list(self._arriving))

    def set_parameters(self) -> None:
        """Gives the servers, and all workers, rank 0's parameters, outside of any step. All workers call it."""
        self.await_all()
        for (name, parameter), value in zip(self.parameters, self._values):
            if parameter.data_ptr() != value.data_ptr():
                raise FailedPrecondition(f"parameter {name} has moved to other memory since the optimizer was made distributed; servers write to the "
                                         "former")
        self.store.set(self._keys, self._values)
        self.store.wait_all()
        self.store.barrier()
        self.store.pull(self._keys, self._values)
        self._versions = [parameter._version for _, parameter in self.parameters]

    def _require_unwritten(self) -> None:
        for (name, parameter), value, version in zip(self.parameters, self._values, self._versions):
            if parameter._version != version or parameter.data_ptr() != value.data_ptr():
                raise FailedPrecondition(f"parameter {name} was written by this program, which the servers do not know: set_parameters() of the "
                                         "optimizer, called by all workers, gives them rank 0's")

    def _on_gradient(self, i: int) -> None:
        """Runs when backward has added to the gradient of a parameter."""
        if i in self._reached:
            raise second_gradient(self._keys[i])
        if not self._reached:
            torch.autograd.Variable._execution_engine.queue_callback(self._on_end)
            embedding.reach()
            self._send_rates()
        self._reached.add(i)
        self._gathered.add(i)
        if self._passes_done + 1 == self.passes:
            self._push(i, gradient_of(*self.parameters[i]))

    def _on_end(self) -> None:
        self._reached.clear()
        self._passes_done = (self._passes_done + 1) % self.passes

    def _push(self, i: int, gradient: torch.Tensor) -> None:
        if i in self._pushed:
            raise FailedPrecondition(f"parameter {self._keys[i]} got a gradient after it had been pushed: step() has to follow each "
                                     f"{self.passes} backward(); backward_passes_per_step says how many there are")
        self._pushed.add(i)
        self.store.push(self._keys[i], gradient, priority=-i, divisor=self._divisor)

    def _send_rates(self) -> None:
        config = config_of(self._kind, self._optimizer.param_groups, self._names)
        if config != self._config:
            self._config = config
            if self.store.rank == 0:
                self.store.set_optimizer(config)

    def step(self) -> None:
        """Brings the parameters of the round that backward has pushed."""
        self.await_all()
        self._require_unwritten()
        if self._passes_done > 0:
            embedding.require_complete()
        for i, (_, parameter) in enumerate(self.parameters):
            if i in self._pushed:
                continue
            if i in self._gathered:  # by fewer backward() than a step has
                self._push(i, gradient_of(*self.parameters[i]))
            elif self._is_sync:
                self._push(i, torch.zeros_like(parameter))
        self._pushed.clear()
        self._gathered.clear()
        self._passes_done = 0
        now = [i for i in range(len(self._keys)) if i not in self._overlapped]
        self._arriving = {i: self.store.pull_async(self._keys[i], self._values[i], priority=-i) for i in sorted(self._overlapped)}
        if now:
            self.store.pull([self._keys[i] for i in now], [self._values[i] for i in now])
