"""Tables of tools/bench_train.py that need no PyTorch: Sluice beside itself, beside a plain loop, and where a step goes."""
import json
import os
import statistics

import bench_machine
import profile_step
from bench_run import (LAUNCH, NAMES, Skipped, figure, in_turns, launched, objects, program, rates, ratio, run, step_times,
                       steps_of, table, train_bench, written)

LENET_BYTES = "2000+80+100000+200+1600000+2000+20000+40"  # the bytes of its parameters
STOCK = tuple(name for name in NAMES if not name.endswith("_200"))


def bfloat16_arithmetic():
    """Returns the values of SLUICE_BFLOAT16_ARITHMETIC by which this processor can compute layers whose weights are bfloat16."""
    return ("0", "1") if "avx512f" in bench_machine.cpuinfo("flags").split() else ("0",)


def trainer(args):
    """A step through a Trainer and its store on one machine, beside the bare step (tape and SGD on one stream), batch 64"""
    stores = ("local", "device")

    def row(network, threads):
        bare, *others = rates(args.pairs, lambda: train_bench(network, 64, threads),
                              *(lambda store=store: train_bench(network, 64, threads, "--kv-store", store) for store in stores))
        return (NAMES[network], str(threads), figure(bare), *map(figure, others),
                *(f"{ratio(other, bare):.2f}" for other in others))

    table(("network", "threads", "bare, images/s", *(f"`{store}`, images/s" for store in stores),
           *(f"`{store}` / bare" for store in stores)),
          (row(network, threads) for network in ("lenet", "gluon_lenet", "resnet20") for threads in args.threads))


def bfloat16(args):
    """Training steps in bfloat16 beside float32, by what SLUICE_BFLOAT16_ARITHMETIC says: 0 multiplies in float32"""
    def step(threads, dtype, arithmetic):  # a store keeps the masters
        return train_bench("lenet", 64, threads, "--kv-store", "local", "--dtype", dtype, SLUICE_BFLOAT16_ARITHMETIC=arithmetic)

    def row(threads, arithmetic):
        ours, theirs = rates(args.pairs, lambda: step(threads, "bfloat16", arithmetic), lambda: step(threads, "float32", "0"))
        return NAMES["lenet"], "64", str(threads), arithmetic, figure(ours), figure(theirs), f"{ratio(ours, theirs):.2f}"

    table(("network", "batch", "threads", "arithmetic", "bfloat16, images/s", "float32, images/s", "ratio"),
          (row(threads, arithmetic) for threads in args.threads for arithmetic in bfloat16_arithmetic()))


def kernels(args):
    """Products of a `lenet` step by operation, float32 and bfloat16, one thread, batch 64, with rounding of the factors"""
    if len(bfloat16_arithmetic()) < 2:
        raise Skipped("arithmetic in bfloat16 needs a processor with AVX-512")

    def operations(arithmetic):
        text = written("--costs", program("train_bench"), "--steps", steps_of("lenet", 64), "--profile", "--kv-store", "local",
                       "--dtype", "bfloat16", SLUICE_BFLOAT16_ARITHMETIC=arithmetic)
        return {profile_step.label(each, 64): each["us"] for each in json.loads(text)["operations"]
                if each["what"].startswith(("Conv2D", "Dense"))}

    def rows():
        measured = in_turns(args.pairs, lambda: operations("0"), lambda: operations("1"))
        for name in sorted(measured[0][0], key=measured[0][0].get, reverse=True):
            float32, bfloat = ([one[name] for one in each] for each in measured)
            yield f"`{name}`", figure(float32), figure(bfloat), f"{ratio(float32, bfloat):.2f}"

    table(("operation", "float32, us", "bfloat16, us", "float32 / bfloat16"), rows())


def one_pass(args):
    """What a Sequential saves by running neighbours in one pass, and what is left between operations; one thread, batch 64"""
    def row(network):
        together, alone = in_turns(args.pairs, lambda: step_times(network), lambda: step_times(network, "--layer-by-layer"))
        (step, between), (step_alone, between_alone) = zip(*together), zip(*alone)
        return (NAMES[network], figure(step_alone), figure(between_alone), figure(step), figure(between),
                f"{100 * ratio(between, step):.1f} %", f"{ratio(step_alone, step):.2f}")

    table(("network", "layer by layer, us", "between operations, us", "Sequential, us", "between operations, us",
           "share of the step", "gain"), map(row, ("lenet", "gluon_lenet", "resnet20")))


def binding(args):
    """SLUICE_BIND_THREADS=1 for 0: `train_mnist --kv-store device --num-devices 2`, batch 64, loader and all"""
    flags = ("--kv-store", "device", "--num-devices", 2, "--batch-size", 64, "--num-epochs", 1,
             "--num-examples", 2000 if args.quick else 20000, "--num-test-examples", 64)

    def once(network, binds):
        return json.loads(written("--json", program("train_mnist"), "--network", network, *flags, SLUICE_BIND_THREADS=binds))

    def row(network):
        bound, free = rates(args.pairs, lambda: once(network, "1"), lambda: once(network, "0"))
        each = sorted(a / b for a, b in zip(bound, free))
        return NAMES[network], "2", figure(bound), figure(free), f"{statistics.median(each):.2f}", f"{each[0]:.2f}", f"{each[-1]:.2f}"

    table(("network", "contexts", "bound, images/s", "not bound, images/s", "ratio", "least", "most"),
          map(row, ("lenet", "gluon_lenet")))


def rounds(args):
    """Core time of a synchronous round of `lenet`'s keys, all processes: nothing but pushing, updating and pulling"""
    def row(servers):
        text = launched(servers, program("kv_bench"), "--modes", "push_pull", "--bytes", LENET_BYTES, "--optimizer", "sgd",
                        "--raw=false", "--repeats", args.pairs)
        return "2", str(servers), f"{objects(text)[0]['cpu_ms_per_round']:.2f}"

    table(("workers", "servers", "core time of a round, ms"), map(row, (1, 2)))


def job(args):
    """`make run`: 2 workers, 2 servers and a scheduler train `lenet` on synthetic digits"""
    epochs = 1 if args.quick else 5
    report = json.loads(launched(2, program("train_mnist"), "--network", "lenet", "--kv-store", "dist_sync", "--num-epochs", epochs))
    table(("epochs", "images/s in all", "final test accuracy"),
          [(str(epochs), f"{report['images_per_sec']:,.0f}", f"{report['test_accuracy']:.4f}")])


def update(args):
    """Updates of 25 M float32, SGD with momentum, beside a plain fused loop"""
    def row(threads, arrays):
        result = objects(run(program("update_bench"), "--threads", threads, "--arrays", arrays))[0]
        return (str(threads), str(arrays), f"{result['store_gb_per_sec']:.1f}", f"{result['plain_gb_per_sec']:.1f}",
                f"{result['ratio']:.2f}")

    table(("threads", "arrays", "store, GB/s", "plain loop, GB/s", "ratio"),
          (row(threads, arrays) for threads in args.threads for arrays in (1, 200, 2000)))


def allocations(_args):
    """Allocations per step in the steady state, batch 64, by who asks for them"""
    def row(name, store, result):
        calls = result["allocations_per_step"]
        return (NAMES[name], store, *(f"{calls[who]:,.4g}" for who in ("arrays", "sluice", "onednn", "others")),
                f"{result['allocated_bytes_per_step']['onednn'] / 1e3:,.0f}")

    def rows():
        for network in STOCK:
            yield row(network, "-", train_bench(network, 64, 1, "--count-allocations"))
        local = ("--count-allocations", "--kv-store", "local")
        yield row("lenet", "`local`", train_bench("lenet", 64, 1, *local))
        yield row("lenet", "`local`, batches from a DataLoader", train_bench("lenet", 64, 1, *local, "--loader"))
        for network in ("lenet", "resnet20"):
            text = launched(1, program("train_bench"), "--network", network, "--steps", steps_of(network, 64), "--repeats", 1,
                            "--kv-store", "dist_sync", "--count-allocations")
            yield row(network, "`dist_sync`", objects(text)[0])

    table(("network", "store", "behind the Allocator seam", "other memory of Sluice", "oneDNN", "other libraries", "KB of oneDNN"), rows())


def profile(args):
    """Where a step goes, beside the machine's limits: tools/profile_step.py, one thread, batch 64"""
    for network in STOCK:
        print(f"{NAMES[network]}:\n\n```\n{profile_step.profiled(network, 64, 1, steps_of(network, 64), args.pairs)}\n```\n", flush=True)


def overlap(_args):
    """Overlap of a `dist_sync` step: 2 workers of 1 thread, 1 server, `lenet`, batches of 64 from a DataLoader, microseconds"""
    print(launched(1, program("train_bench"), "--kv-store", "dist_sync", "--loader", "--trace", "--steps", 100), flush=True)


def lenet_on_mnist(args, store, epochs, *flags):
    """Test accuracy after so many epochs."""
    data = os.environ.get("SLUICE_MNIST", "")
    if not os.path.isdir(data):
        raise Skipped("SLUICE_MNIST names no folder with MNIST; tools/get_mnist.py fetches it")
    job_of_two = (LAUNCH, "-n", 2, "-s", 2) if store.startswith("dist") else ()
    report = written("--json", *job_of_two, program("train_mnist"), "--network", "lenet", "--data-dir", data,
                     "--num-epochs", 1 if args.quick else epochs, "--kv-store", store, *flags)
    return f"{json.loads(report)['test_accuracy']:.4f}"


def accuracy(args):
    """Test accuracy of `lenet` on MNIST"""
    table(("five epochs, 2 workers, 2 servers", "accuracy"),
          ((f"`{' '.join(map(str, (store, *flags)))}`", lenet_on_mnist(args, store, 5, *flags))
           for store, *flags in (("dist_sync",), ("dist_device_sync", "--num-devices", 2), ("dist_async", "--lr", 0.01))))
    print()
    table(("ten epochs: `--dtype`", "1 device", "2 devices (`device`)", "2 workers, 2 servers (`dist_sync`)"),
          ((f"`{dtype}`", *(lenet_on_mnist(args, store, 10, "--dtype", dtype, *flags)
                            for store, *flags in (("local",), ("device", "--num-devices", 2), ("dist_sync",))))
           for dtype in ("float32", "bfloat16")))


# What LeNet's gradients, summed over a batch of 64, take to arrive: docs/benchmarks/compression.md.
COMPRESSIONS = (("none",), ("fp16",), ("bf16",), ("2bit", "--gc-threshold", 0.5), ("2bit", "--gc-threshold", 2), ("2bit", "--gc-threshold", 4), ("1bit", "--gc-threshold", 0),
                ("topk", "--gc-ratio", 0.01), ("topk", "--gc-ratio", 0.1))


def compression(args):
    """Test accuracy of `lenet` on MNIST by what pushes send: ten epochs, `dist_sync`, 2 workers, 2 servers; a seed for each of --pairs, at most 3"""
    def of_seeds(*flags):
        return [100 * float(lenet_on_mnist(args, "dist_sync", 10, "--seed", seed, *flags)) for seed in range(1, min(args.pairs, 3) + 1)]

    def rows():
        for flags in (("--gc-type", *each) for each in COMPRESSIONS):
            each = of_seeds(*flags)
            if flags[1] == "none":
                plain = each
            yield (f"`{' '.join(map(str, flags))}`", figure(each, 2), f"{min(each):.2f}", f"{max(each):.2f}",
                   f"{statistics.median(a - b for a, b in zip(each, plain)):+.2f}")

    table(("pushes", "accuracy, %", "least", "most", "against none, points"), rows())


TABLES = (trainer, bfloat16, kernels, one_pass, binding, rounds, job, update, allocations, profile, overlap, accuracy, compression)
