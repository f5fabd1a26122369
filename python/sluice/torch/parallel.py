"""DistributedDataParallel: a module whose gradients are averaged over the workers, whatever uses them."""
import contextlib
from typing import Any, Iterator, Optional

import torch

from ..optim import Compression
from .exchange import Exchange
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

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it, backward() adds up gradients of this worker; the next backward() outside averages the sums."""
        self._exchange._is_held = True
        try:
            yield
        finally:
            self._exchange._is_held = False
