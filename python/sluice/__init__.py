"""Sluice: training on parameter servers.

    kv = sluice.create("dist_sync")            # joins the job that `sluice launch` made; "local" works alone
    kv.init("w", numpy.zeros((2, 3), numpy.float32))
    kv.set_optimizer(sluice.SGD(0.1))
    kv.push("w", gradient)                     # an array of NumPy, PyTorch or anything with DLPack
    w = kv.pull("w")                           # an NDArray; numpy.asarray(w) waits for it
"""
from . import optim as _optim
from ._core import Context, NDArray, cpu, cpu_pinned, gpu, wait_all
from ._core import version as __version__
from .array import array, empty, full, ones, zeros
from .errors import (AlreadyExists, Cancelled, DataLoss, DeadlineExceeded, Error, FailedPrecondition, InvalidArgument, NotFound,
                     PermissionDenied, ResourceExhausted, Unavailable, Unimplemented)
from .kvstore import KVStore, create
from .optim import *  # noqa: F403
from .process import finish, init, rank, size
from .run import run

__all__ = ["AlreadyExists", "Cancelled", "Context", "DataLoss", "DeadlineExceeded", "Error", "FailedPrecondition", "InvalidArgument", "KVStore",
           "NDArray", "NotFound", "PermissionDenied", "ResourceExhausted", "Unavailable", "Unimplemented", "__version__", "array", "cpu",
           "cpu_pinned", "create", "empty", "finish", "full", "gpu", "init", "ones", "rank", "run", "size", "wait_all", "zeros"]
__all__ += _optim.__all__
