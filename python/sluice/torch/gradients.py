"""Gradients of named parameters: when backward has made one, and its memory."""
import hashlib
from typing import Any, Callable

import torch

from ..errors import FailedPrecondition, InvalidArgument
from ..kvstore import KVStore

MOST_SHOWN = 50_000  # bytes; an agreement takes 64 KiB


def require_names(parameters: list[tuple[str, torch.nn.Parameter]]) -> None:
    names = [name for name, _ in parameters]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidArgument(f"the name {repeated[0]!r} belongs to two parameters; every parameter needs a name of its own")
    if not names:
        raise InvalidArgument("there is no parameter that takes a gradient")


def require_same(store: KVStore, parameters: list[tuple[str, torch.nn.Parameter]]) -> None:
    """Raises on a worker whose parameters are others than rank 0's. All workers have to call it."""
    own = sorted(f"{name} {list(parameter.shape)} {str(parameter.dtype).removeprefix('torch.')}" for name, parameter in parameters)
    digest = hashlib.sha256("\n".join(own).encode()).hexdigest()
    shown, size = [_count_of(len(own))], 0
    for line in own:
        size += len(line.encode()) + 1
        if size > MOST_SHOWN:
            break
        shown.append(line)
    theirs = store.agree("\n".join([digest, *shown])).split("\n")
    if theirs[0] == digest:
        return
    missing, more = ([line for line in lines if line not in others] for lines, others in ((theirs[2:], own), (own, theirs[2:])))
    raise InvalidArgument(f"worker {store.rank} has other parameters than worker 0, and a job trains the same ones on all workers: worker 0 has "
                          f"{theirs[1]}, among them {missing[0] if missing else 'none that is missing here'}; worker {store.rank} has "
                          f"{shown[0]}, among them {more[0] if more else 'none that is missing there'}")


def _count_of(count: int) -> str:
    return f"{count} parameter{'' if count == 1 else 's'}"


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
