"""DistributedDataParallel: a module whose gradients are averaged over the workers, whatever uses them."""
import contextlib
from typing import Any, Callable, Iterator, Optional

import torch

from ..optim import Compression
from .exchange import Exchange, follow
from .process import new_store
from .sync import broadcast_parameters


class DistributedDataParallel(torch.nn.Module):
    """Runs `module`; backward() returns with gradients that are averaged over the workers. The module begins with rank 0's
    parameters and buffers."""

    def __init__(self, module: torch.nn.Module, compression: Optional[Compression] = None) -> None:
        super().__init__()
        self.module = module
        broadcast_parameters(module.state_dict())
        self._exchange = Exchange(module.named_parameters(), new_store(), True, 1, compression)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def join(self, step: Callable[[], Any]) -> None:
        """Is called by a worker whose data has ended: takes part in the steps of those that have data, until all workers have
        called it. `step` does what the program does after backward(), such as the optimizer's step."""
        while follow([self._exchange], [step]):
            pass

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it, backward() adds up gradients of this worker; the next backward() outside averages the sums."""
        self._exchange._is_held = True
        try:
            yield
        finally:
            self._exchange._is_held = False
