#!/usr/bin/env python3
"""Prints where a training step goes, by operation and shape, beside what this machine can do at most.

    tools/profile_step.py --network lenet --batch 64 --threads 1

Floating-point operations and bytes come from the shapes: each array read or written once, an elementwise function one
operation an element. The limits are measured in the same run. Needs `make programs`.
"""
import argparse
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out
import bench_machine
import bench_run

SHORT = {"Conv2D backward": "Conv2D dX", "Conv2D backward (weights)": "Conv2D dW", "Dense backward": "Dense dX",
         "Dense backward (weights)": "Dense dW", "activation backward": "activation dX", "pool backward": "pool dX",
         "BatchNorm backward": "BatchNorm dX", "Embedding backward": "Embedding dW",
         "Recurrent backward": "Recurrent dX", "Recurrent backward (weights)": "Recurrent dW", "SoftmaxCrossEntropy": "loss", "SoftmaxCrossEntropy backward": "loss dX"}
LEAST_SHARE = 0.004  # a row of its own needs this share
HEAD = ("operation", "us", "step", "MFLOP", "MB", "GFLOP/s", "GB/s", "limit")
WIDTHS = (30, 8, 7, 7, 6, 8, 6, 7)
LOG_STEPS = (5, 10)  # two runs, whose logs differ by steps alone


def label(operation, batch):
    """'Conv2D dW 20x12x12-50, 5x5': without the batch, which is the same everywhere."""
    shape = operation["shape"]
    shape = shape[len(f"{batch}x"):] if shape.startswith(f"{batch}x") else shape
    if "ool" in operation["what"]:
        shape = re.sub(r" to \d+", "", shape)  # as many channels
    shape = shape.replace(" to ", "-").replace(" by ", "/")
    calls = round(operation["calls"])
    return f"{SHORT.get(operation['what'], operation['what'])} {shape}{f' ({calls})' if calls > 1 else ''}".strip()


class Limits:
    """What the machine can do: products, and copying between arrays in the second-level cache and in memory."""

    def __init__(self, profile, cache_bytes):
        self.gflops, self.memory, self.cache = profile["gflops"], profile["memory_gbytes"], profile["cache_gbytes"]
        self.cache_bytes = cache_bytes

    def microseconds(self, operation):
        """The least that an operation can take, all its calls."""
        rate = self.cache if operation["bytes"] / operation["calls"] <= self.cache_bytes else self.memory
        return max(operation["flops"] / self.gflops, operation["bytes"] / rate) / 1e3


def together(what, operations):
    total = {key: sum(each[key] for each in operations) for key in ("calls", "us", "flops", "bytes")}
    return {"what": what, "shape": "", **total}


def rows(profile, limits):
    """(name, operation, its least time): those that take long, the others, what is between them, the step."""
    step, batch = profile["step_us"], profile["batch_size"]
    large = [each for each in profile["operations"] if each["us"] >= LEAST_SHARE * step]
    small = [each for each in profile["operations"] if each["us"] < LEAST_SHARE * step]
    result = [(label(each, batch), each, limits.microseconds(each)) for each in large]
    if small:
        result.append((f"{len(small)} others", together("", small), sum(map(limits.microseconds, small))))
    whole = together("step", profile["operations"])
    result.append(("between operations", {"us": step - whole["us"], "flops": 0, "bytes": 0}, 0))
    result.append(("step", whole | {"us": step}, sum(map(limits.microseconds, profile["operations"]))))
    return result


def line(cells):
    return "  ".join([cells[0].ljust(WIDTHS[0])] + [cell.rjust(width - 2) for cell, width in zip(cells[1:], WIDTHS[1:])]).rstrip()


def table(profile, limits):
    lines = [line(HEAD)]
    for name, operation, least in rows(profile, limits):
        us = operation["us"]
        rate = (lambda amount: f"{amount / us / 1e3:.1f}") if us > 0 else (lambda amount: "-")
        lines.append(line((name, f"{us:,.0f}", f"{100 * us / profile['step_us']:.1f}%", f"{operation['flops'] / 1e6:,.1f}",
                           f"{operation['bytes'] / 1e6:.1f}", rate(operation["flops"]), rate(operation["bytes"]),
                           f"{100 * least / us:.0f}%" if us > 0 else "-")))
    return "\n".join(lines)


def beyond(profile, limits, most=6):
    """What takes longest beyond its limit: [(name, microseconds)]."""
    excess = [(label(each, profile["batch_size"]), each["us"] - limits.microseconds(each)) for each in profile["operations"]]
    return sorted(excess, key=lambda pair: -pair[1])[:most]


def reorders(log):
    """How many of oneDNN's log, and their microseconds."""
    times = [float(match.group(1)) for match in re.finditer(r"^(?:one)?dnnl?_verbose,exec,cpu,reorder,.*,([0-9.e+-]+)$", log, re.MULTILINE)]
    return len(times), 1e3 * sum(times)


def reorders_per_step(logs):
    """Compares the logs of two runs with LOG_STEPS steps: each begins with steps that do not count, both with as many."""
    (few, few_us), (many, many_us) = map(reorders, logs)
    steps = LOG_STEPS[1] - LOG_STEPS[0]
    return (many - few) / steps, max(0.0, many_us - few_us) / steps


def second_level_cache():
    found = re.search(r"L2 (\d+)K", bench_machine.caches())
    return int(found.group(1)) * 1024 if found else 1 << 20


def measured(network, batch, threads, steps, repeats):
    common = (bench_run.program("train_bench"), "--network", network, "--batch-size", batch, "--threads", threads)
    profiles = [json.loads(bench_run.written("--costs", *common, "--steps", steps, "--profile")) for _ in range(repeats)]
    logs = [bench_run.run(*common, "--steps", count, "--repeats", 1, ONEDNN_VERBOSE="1", DNNL_VERBOSE="1") for count in LOG_STEPS]
    allocated = bench_run.objects(bench_run.run(*common, "--steps", steps, "--repeats", 1, "--count-allocations"))[-1]
    best = min(profiles, key=lambda profile: profile["step_us"])
    for limit in ("gflops", "memory_gbytes", "cache_gbytes"):
        best[limit] = max(profile[limit] for profile in profiles)
    return best, logs, allocated["allocations_per_step"]


def report(profile, limits, logs, allocations):
    count, us = reorders_per_step(logs)
    explained = sum(each["us"] for each in profile["operations"]) / profile["step_us"]
    least = sum(map(limits.microseconds, profile["operations"]))
    sleeps = ", ".join(f"{name} {each:.3g}" for name, each in sorted(profile["sleeps"].items()))
    by_whom = ", ".join(f"{who} {allocations[who]:.3g}" for who in ("arrays", "sluice", "onednn", "others"))
    excess = "\n".join(f"  {name}: {us:,.0f} us" for name, us in beyond(profile, limits))
    return f"""\
Limits: {limits.gflops:.0f} GFLOP/s of products; copying {limits.cache:.0f} GB/s up to {limits.cache_bytes / 2**20:g} MiB,
{limits.memory:.1f} GB/s beyond (read and written bytes).

{table(profile, limits)}

Operations explain {100 * explained:.1f}% of the step. At the limits it would take {least:,.0f} us.
Longest beyond their limits:
{excess}
A step: {count:.3g} reorders inside oneDNN ({us:.0f} us);
allocations: {by_whom};
wake-ups (voluntary context switches) by thread: {sleeps}."""


def profiled(network, batch, threads, steps, repeats):
    """What this script prints below the machine."""
    profile, logs, allocations = measured(network, batch, threads, steps, repeats)
    return report(profile, Limits(profile, second_level_cache()), logs, allocations)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="lenet", help="any of train_bench's")
    parser.add_argument("--batch", type=bench_run.positive, default=64)
    parser.add_argument("--threads", type=bench_run.positive, default=1)
    parser.add_argument("--steps", type=bench_run.positive, default=50, help="steps of each run")
    parser.add_argument("--repeats", type=bench_run.positive, default=3, help="runs; the one with the shortest step is printed")
    args = parser.parse_args()
    bench_run.require_programs("train_bench")
    print(f"Machine:\n\n{bench_machine.describe()}\n\n{args.network}, batch {args.batch}, threads {args.threads}", flush=True)
    print(profiled(args.network, args.batch, args.threads, args.steps, args.repeats))


if __name__ == "__main__":
    bench_run.started(main)
