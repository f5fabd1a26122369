"""Stores: named arrays that workers push gradients to and pull weights from."""
from . import _core, process
from ._core import KVStore as KVStore


def create(type: str = "local") -> KVStore:
    """Makes a store: local, device or nccl for this process alone; dist_sync, dist_device_sync, dist_async or
    dist_device_async for the job that `sluice launch` has started. MXNet's other names are taken as well."""
    process.init()
    return _core.create(type)

