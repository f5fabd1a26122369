#!/usr/bin/python3
"""Milliseconds that an all-reduce of float32 takes in place, summed over the processes: gloo, two processes that it starts
itself, or Open MPI, started by mpirun. Prints one JSON object."""
import argparse
import json
import os
import statistics
import tempfile
import time


def measure(reduce, barrier, repeats):
    """Milliseconds of the median of `repeats`, from one barrier to the end here."""
    times = []
    for _ in range(repeats + 2):
        barrier()
        start = time.perf_counter()
        reduce()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[2:])


def report(name, args, ms):
    print(json.dumps({"name": name, "bytes": args.bytes, "ms": round(ms, 3)}), flush=True)


def gloo_rank(rank, args, rendezvous):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    values = torch.zeros(args.bytes // 4)
    ms = measure(lambda: dist.all_reduce(values), dist.barrier, args.repeats)
    if rank == 0:
        report(f"gloo of PyTorch {torch.__version__}", args, ms)
    dist.destroy_process_group()


def gloo(args):
    import torch
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(gloo_rank, (args, os.path.join(folder, "rendezvous")), nprocs=2)


def mpi(args):
    import numpy
    from mpi4py import MPI
    values = numpy.zeros(args.bytes // 4, numpy.float32)
    world = MPI.COMM_WORLD
    ms = measure(lambda: world.Allreduce(MPI.IN_PLACE, values), world.Barrier, args.repeats)
    if world.rank == 0:
        report(MPI.Get_library_version().split(",")[0], args, ms)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=("gloo", "mpi"))
    parser.add_argument("--bytes", type=int, default=100_000_000)
    parser.add_argument("--repeats", type=int, default=10)
    args = parser.parse_args()
    {"gloo": gloo, "mpi": mpi}[args.library](args)


if __name__ == "__main__":
    main()
