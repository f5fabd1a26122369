#!/usr/bin/env python3
"""Prints the tables of docs/benchmarks.md and docs/benchmarks/ that are about training, in markdown: beside PyTorch where it is installed.

A ratio is the median of pairs: Sluice, PyTorch, Sluice, PyTorch, ..., each a process of its own with warm-up steps that do
not count. PyTorch's settings (memory layout, threads pinned or not, how they wait; for DDP pinning and bucket size) are
those that were best in a trial before. Needs `make programs`.
"""
import os
import sys
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out
import bench_alone
import bench_beside_pytorch
import bench_run

TABLES = (*bench_beside_pytorch.TABLES, *bench_alone.TABLES)
PROGRAMS = ("train_bench", "train_mnist", "update_bench", "kv_bench")


def main():
    parser = bench_run.table_parser(__doc__, TABLES)
    parser.add_argument("--threads", type=bench_run.thread_counts, default="1,2", help="comma-separated numbers of threads (default 1,2)")
    args = parser.parse_args()
    bench_run.require_programs(*PROGRAMS)
    if args.quick:
        bench_run.IMAGES.update({network: images // 10 for network, images in bench_run.IMAGES.items()})
    bench_run.print_tables(args)


if __name__ == "__main__":
    bench_run.started(main)
