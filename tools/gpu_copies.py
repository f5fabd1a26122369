#!/usr/bin/python3
"""The speed of copies between pinned memory of the host and a card, by PyTorch: up, down, and both at once.

    tools/gpu_copies.py [--gpu N] [--bytes N] [--json FILE]

Prints one JSON object: GB/s of each way, and of both ways together. It is what a push and a pull of a card are held to.
"""
import argparse
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out
import bench_run

COPIES = 10  # a measurement makes so many


def measure(torch, device, size, repeats):
    here = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    there = [torch.empty(size, dtype=torch.uint8, device=device) for _ in range(2)]
    streams = [torch.cuda.Stream(device) for _ in range(2)]

    def up():
        with torch.cuda.stream(streams[0]):
            there[0].copy_(here[0], non_blocking=True)

    def down():
        with torch.cuda.stream(streams[1]):
            here[1].copy_(there[1], non_blocking=True)

    def rate(*ways):
        seconds = []
        for _ in range(repeats + 1):
            torch.cuda.synchronize(device)
            start = time.perf_counter()
            for _ in range(COPIES):
                for way in ways:
                    way()
            torch.cuda.synchronize(device)
            seconds.append(time.perf_counter() - start)
        return len(ways) * COPIES * size / statistics.median(seconds[1:]) / 1e9

    return {"bytes": size, "up_gb_per_sec": rate(up), "down_gb_per_sec": rate(down), "both_gb_per_sec": rate(up, down)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--bytes", type=bench_run.positive, default=102_400_000)
    parser.add_argument("--repeats", type=bench_run.positive, default=5)
    parser.add_argument("--json", metavar="FILE", help="write the object here")
    args = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("gpu_copies.py: there is no PyTorch here")
    if not torch.cuda.is_available():
        sys.exit("gpu_copies.py: PyTorch finds no GPU here")
    figures = measure(torch, f"cuda:{args.gpu}", args.bytes, args.repeats)
    print(json.dumps(figures))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(figures, file)


if __name__ == "__main__":
    bench_run.started(main)
