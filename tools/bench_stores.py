#!/usr/bin/env python3
"""Prints the tables of docs/benchmarks.md and docs/benchmarks/ that are about pushing and pulling, in markdown: stores over every transport, beside
what the machine gives without them and beside other programs of their kind.

Raw figures and the store's come from one job each. Rows of a transport that this build has not are left out. Needs `make programs`.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out
import bench_kv
import bench_peers
import bench_run

TABLES = (*bench_kv.TABLES, *bench_peers.TABLES)
PROGRAMS = ("kv_bench", "kv_tour", "embedding_table", "codec_bench", "close_bench", "sluice_server", "sluice_scheduler")
TRANSPORTS = {name: name for name in bench_kv.TRANSPORTS}
TOPOLOGIES = {"1x1": (1, 1), "2x1": (2, 1), "2x2": (2, 2)}  # workers x servers
SIZES = {"4K": 4 << 10, "64K": 64 << 10, "1M": 1 << 20, "4M": 4 << 20, "16M": 16 << 20, "64M": 64 << 20}


def peer(text):
    name, _, command = text.partition("=")
    if not name or not command:
        raise argparse.ArgumentTypeError(f"is '{text}'; NAME=COMMAND is expected")
    return name, command


def choice(parser, flag, known, what):
    parser.add_argument(flag, type=bench_run.names_of(known), default=list(known.values()), metavar="NAME,...",
                        help=f"{what} (default {','.join(known)})")


def main():
    parser = bench_run.table_parser(__doc__, TABLES)
    choice(parser, "--transports", TRANSPORTS, "how processes reach each other")
    choice(parser, "--topologies", TOPOLOGIES, "workers x servers")
    choice(parser, "--sizes", SIZES, "bytes of a key")
    parser.add_argument("--peer", type=peer, action="append", default=[], metavar="NAME=COMMAND", help=bench_peers.PEER_HELP)
    args = parser.parse_args()
    if args.quick:
        args.pairs = 1
        args.sizes = [size for size in args.sizes if size in (4 << 10, 1 << 20)]
    bench_run.require_programs(*PROGRAMS)
    bench_run.print_tables(args)


if __name__ == "__main__":
    bench_run.started(main)
