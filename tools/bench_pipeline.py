#!/usr/bin/python3
"""What a pipeline over two contexts gains: a step of 8 layers on two contexts of one core each, beside the same step on one.

    sudo apt-get install bible-kjv && tools/get_kjv.py --out data/kjv
    tools/bench_pipeline.py --data-dir data/kjv [--trace out/pipeline.json]

model_parallel_lstm with 8 LSTM layers of 400 and a vocabulary of 1,000; PlanPlacement places the layers, and a batch goes
through in 8 micro-batches. The runs take turns on two cores; a ratio comes from neighbours. Half of the time is the least
that two cores can take, and with m micro-batches the fill and drain of the pipeline make it (m + 1) / 2m: 0.56 for 8.
"""
import argparse
import json
import os
import re
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out
import bench_run

MODEL = ["--buckets=31,32", "--vocabulary=1000", "--dropout=0", "--lr-plateau=0", "--disp-batches=0", "--num-test-examples=20",
         "--kv-store=local"]


class Comparison:
    def __init__(self, options, folder):
        self.options, self.report = options, os.path.join(folder, "report.json")

    def run(self, cores, *flags):
        """Returns sentences per second, and what the program has printed."""
        program = os.path.join(bench_run.PROGRAMS, "model_parallel_lstm")
        out = bench_run.run("taskset", "-c", cores, program, f"--data-dir={self.options.data_dir}", *MODEL,
                            f"--batch-size={self.options.batch_size}", f"--num-steps={self.options.steps}", f"--json={self.report}", *flags,
                            OMP_NUM_THREADS="1", SLUICE_CPU_THREADS="1")
        with open(self.report, encoding="utf-8") as file:
            return json.load(file)["sentences_per_sec"], out

    def one(self):
        return self.run("0", "--group2ctx=", "--num-devices=1")[0]

    def pipelined(self, *flags):
        return self.run("0,1", "--num-devices=2", f"--micro-batches={self.options.micro_batches}", *flags)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data-dir", required=True, help="folder with train.txt and test.txt")
    parser.add_argument("--batch-size", type=bench_run.positive, default=320)
    parser.add_argument("--micro-batches", type=bench_run.positive, default=8)
    parser.add_argument("--steps", type=bench_run.positive, default=9, help="steps of a run; the first five are not timed (default 9)")
    parser.add_argument("--repeats", type=bench_run.positive, default=5)
    parser.add_argument("--trace", help="write the timeline of the last pipelined run to this file")
    return parser.parse_args()


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(options, folder)
        ratios, out = [], ""
        for i in range(options.repeats):
            trace = [f"--trace={os.path.abspath(options.trace)}"] if options.trace and i + 1 == options.repeats else []
            one, (pipelined, out) = comparison.one(), comparison.pipelined(*trace)
            ratios.append(one / pipelined)
            print(f"sentences/s: one context {one:.2f}, two {pipelined:.2f}; a step takes {one / pipelined:.2f} of the time", flush=True)
        print("\n".join(line for line in out.splitlines() if re.search(r"cpu\(\d\)", line)))
        print(f"batch {options.batch_size}, {options.micro_batches} micro-batches, median of {options.repeats}: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    bench_run.started(main)
