#!/usr/bin/env python3
"""Prints the tables of docs/benchmarks.md that are about training, in markdown: beside PyTorch where it is installed.

A ratio is the median of pairs: Sluice, PyTorch, Sluice, PyTorch, ..., each a process of its own with warm-up steps that do
not count. PyTorch's settings (memory layout, threads pinned or not, how they wait; for DDP pinning and bucket size) are
those that were best in a trial before. Needs `make programs`.
"""
import argparse

import bench_alone
import bench_beside_pytorch
import bench_machine
import bench_run

TABLES = (*bench_beside_pytorch.TABLES, *bench_alone.TABLES)
PROGRAMS = ("train_bench", "train_mnist", "update_bench", "kv_bench")


def tables_named(text):
    by_name = {each.__name__: each for each in TABLES}
    wanted = text.split(",")
    if unknown := sorted(set(wanted) - set(by_name)):
        raise argparse.ArgumentTypeError(f"names {', '.join(map(repr, unknown))}; there are {', '.join(by_name)}")
    return [each for name, each in by_name.items() if name in wanted]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="tables:\n" + "\n".join(f"  {each.__name__:<17}{each.__doc__}" for each in TABLES))
    parser.add_argument("--only", type=tables_named, default=list(TABLES), metavar="TABLE,...", help="those of the tables below")
    parser.add_argument("--pairs", type=bench_run.positive, default=5, help="measurements of each figure; medians are printed (default 5)")
    parser.add_argument("--threads", type=bench_run.thread_counts, default="1,2", help="comma-separated numbers of threads (default 1,2)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: shows that everything runs")
    args = parser.parse_args()
    bench_run.require_programs(*PROGRAMS)
    if args.quick:
        bench_run.IMAGES.update({network: images // 10 for network, images in bench_run.IMAGES.items()})
    print(f"Machine:\n\n{bench_machine.describe()}\n", flush=True)
    for make in args.only:
        print(f"### {make.__doc__} (`--only {make.__name__}`)\n", flush=True)
        try:
            make(args)
        except bench_run.Skipped as why:
            print(f"(skipped: {why})")
        print(flush=True)


if __name__ == "__main__":
    bench_run.started(main)
