"""Gradients of named parameters: when backward has made one, and its memory."""
from typing import Any, Callable

import torch

from ..errors import FailedPrecondition, InvalidArgument


def require_names(parameters: list[tuple[str, torch.nn.Parameter]]) -> None:
    names = [name for name, _ in parameters]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidArgument(f"the name {repeated[0]!r} belongs to two parameters; every parameter needs a name of its own")
    if not names:
        raise InvalidArgument("there is no parameter that takes a gradient")


def second_gradient(name: str) -> FailedPrecondition:
    """The error where a parameter gets two gradients in one backward()."""
    return FailedPrecondition(f"parameter {name} got a second gradient before backward() had ended: an earlier backward() was cut off by an "
                              "exception, or the module runs twice in this one; after the first the job cannot go on, since the other workers "
                              "wait for its gradients")


def gradient_of(name: str, parameter: torch.nn.Parameter) -> torch.Tensor:
    """The gradient as memory that can be sent and written."""
    gradient = parameter.grad
    if gradient is None or gradient.is_sparse:
        raise InvalidArgument(f"the gradient of {name} is sparse; sluice.KVStore.push_rows sends rows")
    if gradient.device.type != "cpu":
        raise InvalidArgument(f"the gradient of {name} is on {gradient.device}; gradients on the CPU are exchanged")
    if not gradient.is_contiguous():
        gradient = parameter.grad = gradient.contiguous()
    return gradient


def hook_of(parameter: torch.nn.Parameter, call: Callable[[int], None], i: int) -> tuple[Any, Any]:
    """A hook that runs after a gradient has been added up, and what it has to keep alive."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):  # since PyTorch 2.1
        return parameter.register_post_accumulate_grad_hook(lambda _: call(i)), None
    accumulates = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    return accumulates.register_hook(lambda *_: call(i)), accumulates
