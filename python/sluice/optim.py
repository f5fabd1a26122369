"""Optimizers, schedules and compressions as plain values: what a store is told, and the servers compute.

A field that is None takes the default of its kind, which is MXNet's; include/sluice/optimizer.h has the formulas.
"""
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Mapping, Optional, Sequence

__all__ = ["FTRL", "LAMB", "NAG", "SGD", "Accumulate", "AdaGrad", "Adam", "AdamW", "Compression", "DelayedNAG", "Optimizer", "RMSProp", "RowInit",
           "Schedule", "Signum"]


def _fields_of(value: Any) -> dict[str, Any]:
    """The fields that are set, by the names of the C++ structs."""
    named = {entry.name: getattr(value, entry.name) for entry in fields(value)}
    return {name: entry for name, entry in named.items() if entry is not None}


@dataclass(frozen=True)
class Schedule:
    """The learning rate as a function of the number of steps of all workers together.

    kind: constant, factor, multi_factor, poly or cosine.
    """

    kind: str = "constant"
    factor: Optional[float] = None
    step: Optional[int] = None
    stop_factor_lr: Optional[float] = None
    steps: Optional[Sequence[int]] = None
    max_update: Optional[int] = None
    final_lr: Optional[float] = None
    power: Optional[float] = None
    warmup_steps: Optional[int] = None
    warmup_begin_lr: Optional[float] = None
    warmup_mode: Optional[str] = None

    def _config(self) -> dict[str, Any]:
        return _fields_of(self)


@dataclass(frozen=True)
class Optimizer:
    """What all optimizers take. multipliers: (of the rate, of the weight decay) by key."""

    kind: ClassVar[str]
    learning_rate: Optional[float] = None
    wd: Optional[float] = field(default=None, kw_only=True)
    clip_gradient: Optional[float] = field(default=None, kw_only=True)
    rescale_grad: Optional[float] = field(default=None, kw_only=True)
    multi_precision: Optional[bool] = field(default=None, kw_only=True)
    normalize_by_samples: Optional[bool] = field(default=None, kw_only=True)
    schedule: Optional[Schedule] = field(default=None, kw_only=True)
    multipliers: Optional[Mapping[Any, tuple[float, float]]] = field(default=None, kw_only=True)

    def _config(self) -> dict[str, Any]:
        config = {"kind": self.kind, **_fields_of(self)}
        if self.schedule is not None:
            config["schedule"] = self.schedule._config()
        if self.multipliers is not None:
            config["multipliers"] = dict(self.multipliers)
        return config


@dataclass(frozen=True)
class SGD(Optimizer):
    kind: ClassVar[str] = "sgd"
    momentum: Optional[float] = None


@dataclass(frozen=True)
class NAG(Optimizer):
    kind: ClassVar[str] = "nag"
    momentum: Optional[float] = None


@dataclass(frozen=True)
class DelayedNAG(Optimizer):
    """NAG whose momentum moves once in a step of all workers: for dist_async and sluice.torch.DiLoCo."""

    kind: ClassVar[str] = "delayed_nag"
    momentum: Optional[float] = None


@dataclass(frozen=True)
class Adam(Optimizer):
    kind: ClassVar[str] = "adam"
    beta1: Optional[float] = None
    beta2: Optional[float] = None
    epsilon: Optional[float] = None


@dataclass(frozen=True)
class AdamW(Adam):
    kind: ClassVar[str] = "adamw"


@dataclass(frozen=True)
class LAMB(Adam):
    kind: ClassVar[str] = "lamb"
    lower_bound: Optional[float] = None
    upper_bound: Optional[float] = None


@dataclass(frozen=True)
class AdaGrad(Optimizer):
    kind: ClassVar[str] = "adagrad"
    epsilon: Optional[float] = None


@dataclass(frozen=True)
class RMSProp(Optimizer):
    kind: ClassVar[str] = "rmsprop"
    momentum: Optional[float] = None
    rho: Optional[float] = None
    epsilon: Optional[float] = None
    centered: Optional[bool] = None


@dataclass(frozen=True)
class FTRL(Optimizer):
    kind: ClassVar[str] = "ftrl"
    lambda1: Optional[float] = None
    beta: Optional[float] = None


@dataclass(frozen=True)
class Signum(Optimizer):
    kind: ClassVar[str] = "signum"
    momentum: Optional[float] = None
    wd_lh: Optional[float] = None


@dataclass(frozen=True)
class Accumulate(Optimizer):
    """Adds what is pushed to the weight."""

    kind: ClassVar[str] = "accumulate"


@dataclass(frozen=True)
class Compression:
    """How gradients are sent: none, 2bit, 1bit, fp16, bf16 or topk; and how weights come back: none, fp16 or bf16."""

    type: str = "none"
    weights: Optional[str] = None
    threshold: Optional[float] = None
    ratio: Optional[float] = None

    def _config(self) -> dict[str, Any]:
        return _fields_of(self)


@dataclass(frozen=True)
class RowInit:
    """The initial values of a row-sparse table, a function of the seed and of each row's id."""

    fill: str = "constant"
    center: float = 0.0
    width: float = 0.0
    seed: int = 0

    def _config(self) -> dict[str, Any]:
        return _fields_of(self)

    @staticmethod
    def constant(value: float) -> "RowInit":
        return RowInit(center=value)

    @staticmethod
    def uniform(low: float, high: float, seed: int = 0) -> "RowInit":
        return RowInit("uniform", (low + high) / 2, (high - low) / 2, seed)

    @staticmethod
    def normal(mean: float, deviation: float, seed: int = 0) -> "RowInit":
        return RowInit("normal", mean, deviation, seed)
