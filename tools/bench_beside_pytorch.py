"""Tables of tools/bench_train.py that stand beside PyTorch, at the best of the settings tried before."""
import os
import subprocess

from bench_run import (NAMES, ROOT, Skipped, figure, launched, objects, program, rates, ratio, run, steps_of, table,
                       train_bench)

PYTHON = "/usr/bin/python3"  # Debian's, which has python3-torch
PINNED = {"OMP_PROC_BIND": "true", "OMP_PLACES": "cores"}
# How OpenMP's threads wait: libgomp spins for about a millisecond, then sleeps, unless told to spin on or to sleep at once.
SETTINGS = {"": {}, "pinned": PINNED}
SETTINGS_OF_TEAMS = SETTINGS | {"spinning": {"OMP_WAIT_POLICY": "active"}, "sleeping": {"OMP_WAIT_POLICY": "passive"},
                                "pinned, spinning": PINNED | {"OMP_WAIT_POLICY": "active"}}


def require_torch():
    try:
        done = subprocess.run([PYTHON, "-c", "import torch"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        why = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1] if done.returncode != 0 else None
    except OSError as error:
        why = str(error)
    if why:
        raise Skipped(f"no PyTorch for {PYTHON}: {why}; Debian: apt-get install python3-torch libopenblas0-openmp")


def layout_of(result):
    return "channels_last" if result["channels_last"] else "contiguous"


def pytorch(network, batch_size, threads, layout, setting, repeats=1):
    return objects(run(PYTHON, os.path.join(ROOT, "tools/bench_pytorch.py"), "--network", network, "--batch-size", batch_size,
                       "--threads", threads, "--steps", steps_of(network, batch_size), "--repeats", repeats, "--layout", layout,
                       **SETTINGS_OF_TEAMS[setting]))


def best_of(results):
    return max(results, key=lambda result: result["images_per_sec"])


def best_setting(network, batch_size, threads):
    """(layout, setting) of the fastest of a trial."""
    settings = SETTINGS if threads == 1 else SETTINGS_OF_TEAMS
    best = best_of([result | {"setting": setting} for setting in settings
                    for result in pytorch(network, batch_size, threads, "both", setting, 3)])
    return layout_of(best), best["setting"]


def beside_pytorch(networks, batch_sizes, args):
    require_torch()

    def row(network, batch_size, threads):
        layout, setting = best_setting(network, batch_size, threads)
        ours, theirs = rates(args.pairs, lambda: train_bench(network, batch_size, threads),
                             lambda: pytorch(network, batch_size, threads, layout, setting)[0])
        return (NAMES[network], str(batch_size), str(threads), figure(ours), figure(theirs),
                ", ".join(filter(None, (layout, setting))), f"{ratio(ours, theirs):.2f}")

    table(("network", "batch", "threads", "Sluice, images/s", "PyTorch, images/s", "PyTorch's setting", "ratio"),
          (row(network, batch_size, threads) for network in networks for batch_size in batch_sizes for threads in args.threads))


def lenet(args):
    """Training steps of the LeNets, float32"""
    beside_pytorch(("lenet", "gluon_lenet"), (64,) if args.quick else (64, 256), args)


def resnet(args):
    """Training steps of ResNet-20 on 3x32x32, float32"""
    beside_pytorch(("resnet20",), (64,), args)


def texts(args):
    """Training steps of networks on texts (10,000 words, 64 of them a text, embeddings and states of 64), float32"""
    beside_pytorch(("text_lstm", "text_gru", "text_cnn"), (64,), args)


def recurrent_layers(args):
    """Training steps of one recurrent layer of 200 units (200 numbers at each of 35 steps; 10 classes of its last), float32"""
    beside_pytorch(("lstm_200", "gru_200", "rnn_200"), (64,), args)


def dist(args):
    """dist_sync, 2 workers of 1 thread and batch 64, `lenet`, beside PyTorch's DDP over gloo"""
    require_torch()
    steps = 10 if args.quick else 100

    def ours(servers):
        return objects(launched(servers, program("train_bench"), "--kv-store", "dist_sync", "--threads", 1, "--batch-size", 64,
                                "--steps", steps, "--repeats", 1))[0]

    def theirs(*setting, repeats=1):
        return objects(run(PYTHON, os.path.join(ROOT, "tools/bench_ddp.py"), "--steps", steps, "--repeats", repeats, *setting))

    trial = best_of(theirs(*(("--bucket-mb", "25", "--pinned", "no") if args.quick else ()), repeats=3))
    names = {True: "yes", False: "no"}
    setting = ("--channels-last", names[trial["channels_last"]], "--pinned", names[trial["pinned"]],
               "--bucket-mb", trial["bucket_mb"])

    def row(servers):
        left, right = rates(args.pairs, lambda: ours(servers), lambda: theirs(*setting)[0])
        return (figure(left), str(servers), figure(right),
                f"{layout_of(trial)}, {'' if trial['pinned'] else 'not '}pinned, buckets of {trial['bucket_mb']:g} MB",
                f"{ratio(left, right):.2f}")

    table(("Sluice, images/s in all", "servers", "DDP, images/s in all", "DDP's setting", "ratio"), map(row, (1, 2)))


TABLES = (lenet, resnet, texts, recurrent_layers, dist)
