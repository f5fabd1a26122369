"""What the workers of test_jobs.py do; the functions travel by name."""
import os
import sys
import time

import numpy
import sluice


def ranks():
    kv = sluice.create("dist_sync")
    assert kv.rank == sluice.rank() and kv.num_workers == sluice.size()
    return kv.rank, kv.num_workers, os.environ.get("COLOUR")


def sums(keys, rounds, transport_shape):
    """Sums of numbers that are whole, so that every order of addition gives the same bits."""
    kv = sluice.create("dist_sync")
    names = [f"k{i}" for i in range(keys)]
    kv.init(names, [numpy.zeros(transport_shape, numpy.float32)] * keys)
    seen = []
    for step in range(rounds):
        gradients = [numpy.full(transport_shape, (kv.rank + 1) * (step + 1) + i, numpy.float32) for i in range(keys)]
        kv.push(names, gradients, copy=False)
        outs = [numpy.empty(transport_shape, numpy.float32) for _ in range(keys)]
        kv.pull(names, outs)
        seen.append([(float(out.min()), float(out.max())) for out in outs])
    return seen


def linear(kind, optimizer, steps, seed):
    """Fits a line; each worker has a share of the samples. Returns rank, weight."""
    rng = numpy.random.default_rng(seed)
    x = rng.standard_normal((64, 3)).astype(numpy.float32)
    y = x @ numpy.float32([1, -2, 3])
    kv = sluice.create(kind)
    mine = slice(kv.rank, None, kv.num_workers)
    weight = numpy.zeros(3, numpy.float32)
    kv.broadcast("w", weight)
    kv.set_optimizer(optimizer)
    for _ in range(steps):
        gradient = 2 * x[mine].T @ (x[mine] @ weight - y[mine])
        kv.push("w", gradient, divisor=64)
        kv.pull("w", out=weight)
    kv.barrier()
    return kv.rank, weight


def fails(rank):
    kv = sluice.create("dist_sync")
    if kv.rank == rank:
        raise ValueError(f"worker {rank} has no data")
    kv.init("w", numpy.zeros(1, numpy.float32))
    while True:  # until the job ends
        kv.push("w", numpy.ones(1, numpy.float32))
        kv.pull("w").wait_to_read()


def leaves(code):
    sluice.create("dist_sync")
    sys.exit(code)


def hangs():
    kv = sluice.create("dist_sync")
    if kv.rank == 0:
        time.sleep(3600)
    kv.barrier()


def agrees():
    kv = sluice.create("dist_sync")
    return kv.agree(f"word of {kv.rank}")


def compressed():
    kv = sluice.create("dist_sync")
    kv.init("w", numpy.zeros(8, numpy.float32))
    kv.set_compression(sluice.Compression("2bit", threshold=1.0))
    kv.push("w", numpy.float32([2, 0.5, -3, 0, 1, -1, 0.25, 9]))
    return kv.pull("w").asnumpy()
