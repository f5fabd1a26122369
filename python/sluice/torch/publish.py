"""Weights for readers: one worker trains, others read its newest parameters whenever they like and never push."""
import time
from typing import Mapping, Union

import torch

from ..errors import DeadlineExceeded, InvalidArgument
from .process import new_store

VERSION = "version"


class _Shared:
    """Named tensors on servers of an async store, where nothing waits for a round, and a version number: odd while rank 0 writes."""

    def __init__(self, model: Union[torch.nn.Module, Mapping[str, torch.Tensor]], name: str) -> None:
        self.name = name
        tensors = model.state_dict(keep_vars=True) if isinstance(model, torch.nn.Module) else dict(model)
        if not tensors:
            raise InvalidArgument(f"{name}: there is no tensor to share")
        self._tensors = {f"{name}: {key}": value for key, value in tensors.items() if value.numel() > 0}
        self._values = [self._bytes_of(value).clone() for value in self._tensors.values()]
        self._version = torch.zeros(1, dtype=torch.int64)
        self._store = new_store("dist_async")
        self._store.init([*self._tensors, f"{name}: {VERSION}"], [*self._values, self._version])

    @staticmethod
    def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
        """The values as bytes, so that every dtype goes."""
        return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


class Publisher(_Shared):
    """What rank 0 has of a shared model."""

    def publish(self) -> int:
        """Makes the tensors' values of now the newest version, and returns its number, from 1. Readers see all of a version or
        none of it. On other ranks than 0 it does nothing and returns 0."""
        if self._store.rank != 0:
            return 0
        for value, tensor in zip(self._values, self._tensors.values()):
            value.copy_(self._bytes_of(tensor))
        writing = int(self._version) | 1  # an earlier call may have been interrupted
        self._set_version(writing)
        self._store.set(list(self._tensors), self._values)
        self._store.wait_all()
        self._set_version(writing + 1)
        return int(self._version) // 2

    def _set_version(self, version: int) -> None:
        self._version.fill_(version)
        self._store.set(f"{self.name}: {VERSION}", self._version)
        self._store.wait_all()


class Follower(_Shared):
    """What a reader has of a shared model."""

    version = 0  # the one that the tensors have; 0: none was published

    def update(self, timeout: float = 60.0) -> int:
        """Writes the newest version into the tensors, where it is newer than theirs, and returns its number; 0 before the first.
        Raises DeadlineExceeded if for `timeout` seconds every version changed while it was read."""
        end = time.monotonic() + timeout
        while True:
            before = self._newest()
            if before % 2 == 0:  # nobody writes
                if before // 2 == self.version:
                    return self.version
                self._store.pull_latest(list(self._tensors), self._values)
                if self._newest() == before:
                    return self._take(before // 2)
            if time.monotonic() > end:
                raise DeadlineExceeded(f"{self.name}: no version stayed as it was for as long as it takes to read it, in {timeout:g} s")
            time.sleep(0.005)  # leaves the servers to the writer

    def _newest(self) -> int:
        self._store.pull_latest(f"{self.name}: {VERSION}", self._version)
        return int(self._version)

    def _take(self, version: int) -> int:
        with torch.no_grad():
            for value, tensor in zip(self._values, self._tensors.values()):
                tensor.copy_(value.view(tensor.dtype).reshape(tensor.shape))
        self.version = version
        return version


def publish(model: Union[torch.nn.Module, Mapping[str, torch.Tensor]], name: str) -> Publisher:
    """Shares a module's parameters and buffers, or named tensors; rank 0 calls publish() on what it returns. All workers call
    publish() or follow() of a name in one order, with models of the same shapes."""
    return Publisher(model, name)


def follow(model: Union[torch.nn.Module, Mapping[str, torch.Tensor]], name: str) -> Follower:
    """Shares a module for reading; update() on what it returns gives it the newest version that rank 0 has published."""
    return Follower(model, name)
