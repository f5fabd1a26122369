#!/usr/bin/env python3
"""Prints the tables of docs/benchmarks.md that are about training, in markdown: beside PyTorch where it is installed.

A ratio is the median of pairs: Sluice, PyTorch, Sluice, PyTorch, ..., each a process of its own with warm-up steps that do
not count. PyTorch's settings (memory layout; for DDP also pinning and bucket size) are those that were best in a trial before. Needs `make programs`.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import bench_machine

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = os.path.join(ROOT, "build", "bin")
PYTHON = "/usr/bin/python3"  # Debian's, which has python3-torch
NAMES = {"lenet": "`lenet` (20/50)", "gluon_lenet": "`gluon_lenet` (6/16)", "resnet20": "`resnet20`",
         "text_lstm": "`text_lstm`", "text_gru": "`text_gru`", "text_cnn": "`text_cnn`"}
# Of one repeat: half a second to a few.
IMAGES = {"lenet": 6400, "gluon_lenet": 32000, "resnet20": 1280, "text_lstm": 3200, "text_gru": 3200, "text_cnn": 640}
LENET_BYTES = "2000+80+100000+200+1600000+2000+20000+40"  # of its parameters


class Skipped(Exception):
    """This table cannot be made here; the text says why."""


def run(*command):
    done = subprocess.run([str(part) for part in command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"bench_train.py: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def objects(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def program(name):
    return os.path.join(PROGRAMS, name)


def launched(servers, *command):
    """What worker 0 of a job of two workers writes to its --json."""
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "result")
        run(os.path.join(ROOT, "tools/launch.py"), "-n", 2, "-s", servers, *command, "--json", result)
        with open(result, encoding="utf-8") as file:
            return file.read()


def best_of(results):
    return max(results, key=lambda result: result["images_per_sec"])


def require_torch():
    try:
        done = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, text=True, check=False)
        why = done.stderr.strip().splitlines()[-1] if done.returncode != 0 else None
    except OSError as error:
        why = str(error)
    if why:
        raise Skipped(f"no PyTorch for {PYTHON}: {why}; Debian: apt-get install python3-torch libopenblas0-openmp")


def pairs(count, ours, theirs):
    """Medians of both and of their ratio; each call measures once."""
    measured = []
    for _ in range(count):
        left, right = ours(), theirs()
        if left["parameters"] != right["parameters"]:
            sys.exit(f"bench_train.py: two different networks: {left} and {right}")
        measured.append((left["images_per_sec"], right["images_per_sec"]))
    return (statistics.median(left for left, _ in measured), statistics.median(right for _, right in measured),
            statistics.median(left / right for left, right in measured))


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def train_bench(network, batch_size, threads, *more):
    steps = max(3, IMAGES[network] // batch_size)
    return objects(run(program("train_bench"), "--network", network, "--batch-size", batch_size, "--threads", threads,
                       "--steps", steps, "--repeats", 1, *more))[0]


def pytorch(network, batch_size, threads, layout, repeats=1):
    steps = max(3, IMAGES[network] // batch_size)
    return objects(run(PYTHON, "tools/bench_pytorch.py", "--network", network, "--batch-size", batch_size, "--threads", threads,
                       "--steps", steps, "--repeats", repeats, "--layout", layout))


def beside_pytorch(networks, batch_sizes, args):
    require_torch()

    def rows():
        for network in networks:
            for batch_size in batch_sizes:
                for threads in args.threads:
                    trial = best_of(pytorch(network, batch_size, threads, "both", 3))
                    layout = "channels_last" if trial["channels_last"] else "contiguous"
                    ours, theirs, ratio = pairs(args.pairs, lambda: train_bench(network, batch_size, threads),
                                                lambda: pytorch(network, batch_size, threads, layout)[0])
                    yield (NAMES[network], str(batch_size), str(threads), f"{ours:,.0f}", f"{theirs:,.0f}", layout,
                           f"{ratio:.2f}")

    table(("network", "batch", "threads", "Sluice, images/s", "PyTorch, images/s", "PyTorch's layout", "ratio"), rows())


def lenet(args):
    """Training steps of the LeNets, float32"""
    beside_pytorch(("lenet", "gluon_lenet"), (64,) if args.quick else (64, 256), args)


def resnet(args):
    """Training steps of ResNet-20 on 3x32x32, float32"""
    beside_pytorch(("resnet20",), (64,), args)


def recurrent(args):
    """Training steps of text_lstm and text_gru (10,000 words, 64 of them a text, embeddings and states of 64), float32"""
    beside_pytorch(("text_lstm", "text_gru"), (64,), args)


def bfloat16(args):
    """Training steps in bfloat16 beside float32"""
    def step(threads, dtype):  # a store keeps the masters
        return train_bench("lenet", 64, threads, "--kv-store", "local", "--dtype", dtype)

    def rows():
        for threads in args.threads:
            ours, theirs, ratio = pairs(args.pairs, lambda: step(threads, "bfloat16"), lambda: step(threads, "float32"))
            yield NAMES["lenet"], "64", str(threads), f"{ours:,.0f}", f"{theirs:,.0f}", f"{ratio:.2f}"

    table(("network", "batch", "threads", "bfloat16, images/s", "float32, images/s", "ratio"), rows())


def dist(args):
    """dist_sync, 2 workers of 1 thread and batch 64, `lenet`, beside PyTorch's DDP over gloo"""
    require_torch()
    steps = 10 if args.quick else 100

    def ours(servers):
        return objects(launched(servers, program("train_bench"), "--kv-store", "dist_sync", "--threads", 1, "--batch-size", 64,
                                "--steps", steps, "--repeats", 1))[0]

    def theirs(*setting, repeats=1):
        return objects(run(PYTHON, "tools/bench_ddp.py", "--steps", steps, "--repeats", repeats, *setting))

    trial = best_of(theirs(*(("--bucket-mb", "25", "--pinned", "no") if args.quick else ()), repeats=3))
    names = {True: "yes", False: "no"}
    setting = ("--channels-last", names[trial["channels_last"]], "--pinned", names[trial["pinned"]],
               "--bucket-mb", trial["bucket_mb"])
    layout = "channels_last" if trial["channels_last"] else "contiguous"

    def rows():
        for servers in (1, 2):
            left, right, ratio = pairs(args.pairs, lambda: ours(servers), lambda: theirs(*setting)[0])
            yield (f"{left:,.0f}", str(servers), f"{right:,.0f}",
                   f"{layout}, {'' if trial['pinned'] else 'not '}pinned, buckets of {trial['bucket_mb']:g} MB", f"{ratio:.2f}")

    table(("Sluice, images/s in all", "servers", "DDP, images/s in all", "DDP's setting", "ratio"), rows())


def rounds(args):
    """Core time of a synchronous round of `lenet`'s keys, all processes: nothing but pushing, updating and pulling"""
    def rows():
        for servers in (1, 2):
            text = launched(servers, program("kv_bench"), "--modes", "push_pull", "--bytes", LENET_BYTES, "--optimizer", "sgd",
                            "--raw=false", "--repeats", args.pairs)
            yield "2", str(servers), f"{objects(text)[0]['cpu_ms_per_round']:.2f}"

    table(("workers", "servers", "core time of a round, ms"), rows())


def update(args):
    """Updates of 25 M float32, SGD with momentum, beside a plain fused loop"""
    def rows():
        for threads in args.threads:
            for arrays in (1, 200, 2000):
                result = objects(run(program("update_bench"), "--threads", threads, "--arrays", arrays))[0]
                yield (str(threads), str(arrays), f"{result['store_gb_per_sec']:.1f}", f"{result['plain_gb_per_sec']:.1f}",
                       f"{result['ratio']:.2f}")

    table(("threads", "arrays", "store, GB/s", "plain loop, GB/s", "ratio"), rows())


def allocations(args):
    """Allocations per step in the steady state, batch 64, by who asks for them"""
    def row(name, store, result):
        calls = result["allocations_per_step"]
        return (NAMES[name], store, *(f"{calls[who]:,.4g}" for who in ("arrays", "sluice", "onednn", "others")))

    def rows():
        for network in NAMES:
            yield row(network, "-", train_bench(network, 64, 1, "--count-allocations"))
        local = ("--count-allocations", "--kv-store", "local")
        yield row("lenet", "`local`", train_bench("lenet", 64, 1, *local))
        yield row("lenet", "`local`, batches from a DataLoader", train_bench("lenet", 64, 1, *local, "--loader"))
        text = launched(1, program("train_bench"), "--kv-store", "dist_sync", "--count-allocations", "--repeats", 1)
        yield row("lenet", "`dist_sync`", objects(text)[0])

    table(("network", "store", "memory of arrays", "Sluice", "oneDNN", "other libraries"), rows())


def profile(args):
    """Where a step goes, one thread, batch 64"""
    for network in NAMES:
        print(f"{NAMES[network]}:\n")
        print(run(program("train_bench"), "--network", network, "--steps", max(3, IMAGES[network] // 64), "--profile"), flush=True)


def overlap(args):
    """Overlap of a `dist_sync` step: 2 workers of 1 thread, 1 server, `lenet`, batches of 64 from a DataLoader, microseconds"""
    print(launched(1, program("train_bench"), "--kv-store", "dist_sync", "--loader", "--trace", "--steps", 100), flush=True)


def accuracy(args):
    """Test accuracy of `lenet` on MNIST after ten epochs: 1 device, 2 devices, 2 workers with 2 servers"""
    data = os.environ.get("SLUICE_MNIST", "")
    if not os.path.isdir(data):
        raise Skipped("SLUICE_MNIST names no folder with MNIST; tools/get_mnist.py fetches it")
    epochs = 1 if args.quick else 10

    def one(dtype, store, launch=(), *flags):
        with tempfile.TemporaryDirectory() as folder:
            result = os.path.join(folder, "result")
            run(*launch, program("train_mnist"), "--network", "lenet", "--data-dir", data, "--num-epochs", epochs, "--dtype", dtype,
                "--kv-store", store, "--json", result, *flags)
            with open(result, encoding="utf-8") as file:
                return f"{json.load(file)['test_accuracy']:.4f}"

    def rows():
        for dtype in ("float32", "bfloat16"):
            yield (f"`{dtype}`", one(dtype, "local"), one(dtype, "device", (), "--num-devices", 2),
                   one(dtype, "dist_sync", (os.path.join(ROOT, "tools/launch.py"), "-n", 2, "-s", 2)))

    table(("`--dtype`", "1 device", "2 devices (`device`)", "2 workers, 2 servers (`dist_sync`)"), rows())


TABLES = (lenet, resnet, recurrent, bfloat16, dist, rounds, update, allocations, profile, overlap, accuracy)


def thread_counts(text):
    counts = [int(count) if count.isdecimal() else 0 for count in text.split(",")]
    if min(counts) < 1:
        raise argparse.ArgumentTypeError(f"is '{text}'; numbers from 1 on are expected, with commas between")
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    names = [each.__name__ for each in TABLES]
    parser.add_argument("--only", default=",".join(names), help="comma-separated: " + ", ".join(names))
    parser.add_argument("--pairs", type=int, default=5, help="measurements of each figure; medians are printed")
    parser.add_argument("--threads", type=thread_counts, default="1,2", help="comma-separated numbers of threads")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: shows that everything runs")
    args = parser.parse_args()
    wanted = args.only.split(",")
    if unknown := set(wanted) - set(names):
        parser.error(f"--only names {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if args.pairs < 1:
        parser.error(f"--pairs is {args.pairs}; it must be at least 1")
    if not os.path.exists(program("train_bench")):
        sys.exit("bench_train.py: build/bin/train_bench is missing: make programs")
    if args.quick:
        IMAGES.update({network: images // 10 for network, images in IMAGES.items()})
    print(f"Machine:\n\n{bench_machine.describe()}\n", flush=True)
    for make in TABLES:
        if make.__name__ not in wanted:
            continue
        print(f"### {make.__doc__}\n", flush=True)
        try:
            make(args)
        except Skipped as why:
            print(f"(skipped: {why})")
        print(flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
