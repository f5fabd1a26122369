"""DistributedSampler: each worker's share of a dataset, so that the batches of n workers are the batches of one."""
from typing import Iterator, Optional, Sized

import torch

from ..errors import InvalidArgument
from . import process


class DistributedSampler(torch.utils.data.Sampler):  # type: ignore[type-arg]
    """The indices of rank, rank + n, ... in an order that the seed and the epoch decide, the same on all workers.

    The last indices are repeated from the beginning, so that all workers have equally many; with drop_last they are left out.
    Call set_epoch(e) before each epoch.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0, drop_last: bool = False,
                 num_replicas: Optional[int] = None, rank: Optional[int] = None) -> None:
        self.workers = process.size() if num_replicas is None else num_replicas
        self.rank = process.rank() if rank is None else rank
        if not 0 <= self.rank < self.workers:
            raise InvalidArgument(f"rank is {self.rank} of {self.workers} workers")
        self.dataset, self.shuffle, self.seed, self.drop_last = dataset, shuffle, seed, drop_last
        self.epoch = 0

    def __len__(self) -> int:
        samples = len(self.dataset)
        return samples // self.workers if self.drop_last else -(-samples // self.workers)

    def __iter__(self) -> Iterator[int]:
        samples = len(self.dataset)
        generator = torch.Generator()
        generator.manual_seed(self.seed + self.epoch)
        order = torch.randperm(samples, generator=generator).tolist() if self.shuffle else list(range(samples))
        total = len(self) * self.workers
        while order and len(order) < total:
            order += order[:total - len(order)]
        return iter(order[self.rank:total:self.workers])

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of this epoch."""
        self.epoch = epoch
