"""Sluice: training on parameter servers.

    kv = sluice.create("dist_sync")            # joins the job that `sluice launch` made; "local" works alone
    kv.init("w", numpy.zeros((2, 3), numpy.float32))
    kv.set_optimizer(sluice.SGD(0.1))
    kv.push("w", gradient)                     # an array of NumPy, PyTorch or anything with DLPack
    w = kv.pull("w")                           # an NDArray; numpy.asarray(w) waits for it
"""
from ._core import Context, NDArray, cpu, cpu_pinned, gpu, wait_all
from ._core import version as __version__
from .array import array, empty, full, ones, zeros
from .errors import (AlreadyExists, Cancelled, DataLoss, DeadlineExceeded, Error, FailedPrecondition, InvalidArgument, NotFound,
                     PermissionDenied, ResourceExhausted, Unavailable, Unimplemented)
from .kvstore import KVStore, create
from .optim import (FTRL, LAMB, NAG, SGD, Accumulate, AdaGrad, Adam, AdamW, Compression, Optimizer, RMSProp, RowInit, Schedule,
                    Signum)
from .process import finish, init, rank, size
from .run import run

__all__ = [name for name in dir() if not name.startswith("_")] + ["__version__"]
