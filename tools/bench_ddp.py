#!/usr/bin/python3
"""Images per second of PyTorch's DistributedDataParallel over gloo: what `train_bench --kv-store dist_sync` does in Sluice.

Processes of one thread each on this machine train one network on random data with SGD with momentum. Every setting that
may help is tried unless it is named: memory layout, size of the gradient buckets, processes pinned to a core each or not.
Prints one JSON object per setting. Without torch it says so and exits 0.
"""
import argparse
import itertools
import json
import os
import signal
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out
import bench_pytorch
import bench_run


def train(rank, args, setting, rendezvous, results):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent says that it was interrupted
    if setting["pinned"]:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=args.workers)
    net = bench_pytorch.make_network(torch, args.network)
    x = bench_pytorch.make_input(torch, args.network, args.batch_size)
    if setting["channels_last"]:
        net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    y = torch.randint(0, 10, (args.batch_size,))
    model = DistributedDataParallel(net, bucket_cap_mb=setting["bucket_mb"], gradient_as_bucket_view=True,
                                    broadcast_buffers=False, static_graph=True)
    loss = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, foreach=True)

    def run(count):
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            loss(model(x), y).backward()
            optimizer.step()
        dist.barrier()

    run(max(3, args.steps // 5))
    rates = []
    for _ in range(args.repeats):
        start = time.perf_counter()
        run(args.steps)
        rates.append(args.workers * args.batch_size * args.steps / (time.perf_counter() - start))
    if rank == 0:
        results.put({"framework": f"pytorch {torch.__version__} ddp gloo", "network": args.network,
                     "parameters": sum(parameter.numel() for parameter in net.parameters()), "workers": args.workers,
                     "batch_size": args.batch_size, "threads": args.threads, **setting,
                     "images_per_sec": round(statistics.median(rates), 1), "best_images_per_sec": round(max(rates), 1)})
    dist.destroy_process_group()


def measure(torch, args, setting):
    context = torch.multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(train, (args, setting, os.path.join(folder, "rendezvous"), results), nprocs=args.workers,
                                    daemon=True)  # who ends early does not wait for them
    return results.get()


def choices(both, text):
    return both if text == "both" else (text == "yes",)


def sizes(text):
    try:
        values = [float(size) for size in text.split(",")]
    except ValueError:
        values = [0]
    if min(values) <= 0:
        raise argparse.ArgumentTypeError(f"is '{text}'; sizes above 0 are expected, with commas between")
    return values


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="lenet", help="as bench_pytorch.py has them")
    parser.add_argument("--workers", type=bench_run.positive, default=2)
    parser.add_argument("--batch-size", type=bench_run.positive, default=64, help="samples of each worker")
    parser.add_argument("--threads", type=bench_run.positive, default=1, help="threads of each worker")
    parser.add_argument("--steps", type=bench_run.positive, default=60, help="steps per repeat")
    parser.add_argument("--repeats", type=bench_run.positive, default=5, help="the median of these is reported")
    parser.add_argument("--channels-last", choices=("both", "yes", "no"), default="both")
    parser.add_argument("--pinned", choices=("both", "yes", "no"), default="both", help="a core for each process")
    parser.add_argument("--bucket-mb", type=sizes, default="0.5,1,25", help="comma-separated sizes of DDP's gradient buckets")
    args = parser.parse_args()

    os.environ.setdefault("ATEN_CPU_CAPABILITY", bench_pytorch.best_capability())
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ.setdefault("OMP_NUM_THREADS", str(args.threads))
    try:
        import torch
        import torch.multiprocessing
    except ImportError as error:
        print(f"bench_ddp.py: skipped, no PyTorch for {sys.executable} ({error}); Debian: apt-get install python3-torch "
              "libopenblas0-openmp, then run it with /usr/bin/python3", file=sys.stderr)
        return
    for channels_last, pinned, bucket in itertools.product(
            choices((True, False), args.channels_last), choices((False, True), args.pinned), args.bucket_mb):
        setting = {"channels_last": channels_last, "pinned": pinned, "bucket_mb": bucket}
        print(json.dumps(measure(torch, args, setting)), flush=True)


if __name__ == "__main__":
    bench_run.started(main)
