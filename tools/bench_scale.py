#!/usr/bin/env python3
"""A round (push, close, pull) of 8 keys of 512 KiB on hosts of their own (tools/lab.py), beside tools/scale_model.py's closed form.

Needs root and `make programs`. All hosts share this machine's cores, which the model knows nothing of: the slower the links, the
less they count.
"""
import argparse
import json
import pathlib
import sys
import tempfile

import bench_network
import bench_run
import lab
import scale_model

KEYS = [512 << 10] * 8
SHAPES = "1x1", "2x1", "4x1", "2x2", "4x2", "4x4"
OVERHEAD = 1448 / 1538  # payload of a frame's bytes on a link


def round_ms(hosts, workers, servers, repeats):
    """The median over rounds that worker 0 makes one after the other, all keys in one call."""
    with tempfile.NamedTemporaryFile(suffix=".json") as results:
        bench_network.job(hosts, bench_run.program("kv_bench"), "--modes", "push_pull", "--calls=1", "--raw=false", "--keys", "1",
                          "--bytes", "+".join(map(str, KEYS)), "--repeats", repeats, "--json", results.name,
                          workers=workers, servers=servers)
        line, = [json.loads(each) for each in pathlib.Path(results.name).read_text(encoding="utf-8").splitlines() if each.startswith("{")]
    return line["p50_us"] / 1e3


def shape(text):
    workers, _, servers = text.partition("x")
    return bench_run.positive(workers), bench_run.positive(servers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=bench_run.positive, default=2, help="of kv_bench, half a second each (default 2)")
    parser.add_argument("--mbit", type=bench_run.positive, nargs="+", default=[100, 1000], help="of each link (default 100 1000)")
    parser.add_argument("--shapes", type=shape, nargs="+", default=[shape(text) for text in SHAPES],
                        help=f"workers x servers (default {' '.join(SHAPES)})")
    args = parser.parse_args()
    bench_run.require_programs("kv_bench", "sluice_scheduler", "sluice_server")
    rows = []
    try:
        with lab.Hosts(1 + max(map(sum, args.shapes))) as hosts:
            for mbit in args.mbit:
                hosts.set_rate(f"{mbit}mbit")
                for workers, servers in args.shapes:
                    job = scale_model.Job(workers, servers, mbit * 125e3 * OVERHEAD)
                    model, measured = scale_model.round_seconds(job, KEYS) * 1e3, round_ms(hosts, workers, servers, args.repeats)
                    rows.append((f"{mbit:,} Mbit/s", f"{workers} x {servers}", f"{model:.1f}", f"{measured:.1f}",
                                 f"{measured / model:.2f}"))
    except lab.Unavailable as why:
        sys.exit(f"{bench_run.script()}: {why}")
    bench_run.table(("links", "workers x servers", "model, ms", "measured, ms", "measured / model"), rows)


if __name__ == "__main__":
    bench_run.started(main)
