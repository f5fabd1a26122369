#!/usr/bin/env python3
"""A round (push, close, pull) of 8 keys of 512 KiB on hosts of their own (tools/lab.py), beside tools/scale_model.py's closed form
and beside constants fitted to it (tools/scale_fit.py); then the core time of rounds of several sizes, and what a message and a byte
take of it.

Needs root and `make programs`. All hosts share this machine's cores, which the model knows nothing of: the slower the links, the
less they count.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out
import bench_network
import bench_run
import lab
import scale_fit
import scale_model

KEYS = [512 << 10] * 8
LOADS = {"1 float": [4], "40 of 4 KiB": [4 << 10] * 40, "64 KiB": [64 << 10], "8 of 64 KiB": [64 << 10] * 8, "8 of 512 KiB": KEYS}
SHAPES = "1x1", "2x1", "4x1", "2x2", "4x2", "4x4"
OVERHEAD = 1448 / 1538  # payload of a frame's bytes on a link


def measure(hosts, workers, servers, repeats, sizes):
    """Measures rounds that worker 0 makes one after the other, all keys in one call. Returns their median and the core time of all processes, in ms."""
    with tempfile.NamedTemporaryFile(suffix=".json") as results:
        bench_network.job(hosts, bench_run.program("kv_bench"), "--modes", "push_pull", "--calls=1", "--raw=false", "--keys", "1",
                          "--bytes", "+".join(map(str, sizes)), "--repeats", repeats, "--json", results.name,
                          workers=workers, servers=servers)
        line, = [json.loads(each) for each in pathlib.Path(results.name).read_text(encoding="utf-8").splitlines() if each.startswith("{")]
    return line["p50_us"] / 1e3, line["cpu_ms_per_round"]


def fitted(features, values):
    """(coefficients, root mean square of relative errors); None where so few measurements say nothing."""
    try:
        if len(values) <= len(features[0]):
            return None
        coefficients = scale_fit.least_squares(features, values)
    except ValueError:
        return None
    return coefficients, scale_fit.error(features, values, coefficients)


def print_links(args, hosts):
    names, jobs, times = [], [], []
    for mbit in args.mbit:
        hosts.set_rate(f"{mbit}mbit")
        for workers, servers in args.shapes:
            names.append((f"{mbit:,} Mbit/s", f"{workers} x {servers}"))
            jobs.append(scale_model.Job(workers, servers, mbit * 125e3 * OVERHEAD))
            times.append(measure(hosts, workers, servers, args.repeats, KEYS)[0] / 1e3)
    closed = [scale_model.round_seconds(job, KEYS) for job in jobs]
    features = [scale_fit.of_links(job, KEYS) for job in jobs]
    fit = fitted(features, times)
    of_fit = [f"{time / scale_fit.predicted(fit[0], row):.2f}" if fit else "-" for time, row in zip(times, features)]
    bench_run.table(("links", "workers x servers", "model, ms", "measured, ms", "measured / model", "measured / fitted"),
                    ((*name, f"{model * 1e3:.1f}", f"{time * 1e3:.1f}", f"{time / model:.2f}", last)
                     for name, model, time, last in zip(names, closed, times, of_fit)))
    if fit:
        (share, queued), error = fit
        missed = scale_fit.error([[each] for each in closed], times, [1])
        print(f"\nFitted: {share:.3f} T_link + (W - 1) {queued / 1e3:,.0f} KB / r. It misses by {100 * error:.1f} % (root mean square), "
              f"the closed form by {100 * missed:.1f} %.", flush=True)


def print_cores(args, hosts):
    hosts.set_rate(None)
    names, features, times = [], [], []
    for workers, servers in args.shapes:
        for name, sizes in LOADS.items():
            names.append((f"{workers} x {servers}", name))
            features.append(scale_fit.of_cores(workers, servers, sizes))
            times.append(measure(hosts, workers, servers, args.repeats, sizes)[1] / 1e3)
    fit = fitted(features, times)
    of_fit = [f"{time / scale_fit.predicted(fit[0], row):.2f}" if fit else "-" for time, row in zip(times, features)]
    print("\nCore time of a round, all processes, links without a limit:\n")
    bench_run.table(("workers x servers", "keys", "measured, ms", "measured / fitted"),
                    ((*name, f"{time * 1e3:.3f}", last) for name, time, last in zip(names, times, of_fit)))
    if fit:
        (message, byte), error = fit
        print(f"\nFitted: {message * 1e6:.1f} us for an end of a message (the model has {scale_model.Job.message * 1e6:.0f}) and "
              f"{byte * 1e9:.2f} s/GB at each end of a connection. It misses by {100 * error:.0f} % (root mean square).", flush=True)


def shape(text):
    workers, _, servers = text.partition("x")
    return bench_run.positive(workers), bench_run.positive(servers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=bench_run.positive, default=2, help="repeats of kv_bench, half a second each (default 2)")
    parser.add_argument("--mbit", type=bench_run.positive, nargs="+", default=[100, 1000], help="rates of each link (default 100 1000)")
    parser.add_argument("--shapes", type=shape, nargs="+", default=[shape(text) for text in SHAPES],
                        help=f"workers x servers (default {' '.join(SHAPES)})")
    args = parser.parse_args()
    bench_run.require_programs("kv_bench", "sluice_scheduler", "sluice_server")
    try:
        with lab.Hosts(1 + max(map(sum, args.shapes))) as hosts:
            print_links(args, hosts)
            print_cores(args, hosts)
    except lab.Unavailable as why:
        sys.exit(f"{bench_run.script()}: {why}")


if __name__ == "__main__":
    bench_run.started(main)
