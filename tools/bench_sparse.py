#!/usr/bin/python3
"""What a row-sparse gradient gains: training programs with a large vocabulary, with --sparse-embedding and without.

    tools/bench_sparse.py

Texts of random words, whose frequencies follow Zipf's law. A step of train_text reads 32 texts of 35 words; its networks are
small, so that the embedding's gradient and update are most of a dense step. A language model's decoder scores every word of the
vocabulary at each step and has a dense gradient of its own, so that its step gains what the embedding takes of it. The two
settings take turns; ratios come from neighbours, without the first five steps of each run.
"""
import argparse
import itertools
import json
import os
import random
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out
import bench_run

BATCH, WORDS, CLASSES, DIMENSION = 32, 35, 4, 200


def lines_of(vocabulary, count, rng):
    """`count` lists of words. The first lines name every word once, so that all are known."""
    names = [f"w{i}" for i in range(vocabulary)]
    weights = list(itertools.accumulate(1 / (i + 1) for i in range(vocabulary)))
    for first in range(0, vocabulary, WORDS):
        yield names[first : first + WORDS]
    for _ in range(count):
        yield rng.choices(names, cum_weights=weights, k=WORDS)


def write(folder, vocabulary):
    rng = random.Random(1)
    train, test = list(lines_of(vocabulary, 2_000, rng)), [["w0", "w1"]] * CLASSES
    for name, lines in (("train", train), ("test", test)):
        with open(os.path.join(folder, f"{name}.tsv"), "w", encoding="utf-8") as file:
            file.writelines(f"c{i % CLASSES}\t{' '.join(words)}\n" for i, words in enumerate(lines))
        with open(os.path.join(folder, f"{name}.txt"), "w", encoding="utf-8") as file:
            file.writelines(" ".join(words) + "\n" for words in (lines if name == "train" else lines * 200))


class Comparison:
    def __init__(self, options, folder):
        self.options, self.folder, self.report = options, folder, os.path.join(folder, "report.json")

    def rate(self, sparse, program, flags, launch=()):
        own = [f"--data-dir={self.folder}", "--disp-batches=0", f"--batch-size={BATCH}", f"--json={self.report}", "--mom=0",
               f"--sparse-embedding={'true' if sparse else 'false'}"]
        bench_run.run(*launch, os.path.join(bench_run.PROGRAMS, program), *own, *flags, OMP_NUM_THREADS=str(self.options.threads),
                      SLUICE_CPU_THREADS=str(self.options.threads))
        with open(self.report, encoding="utf-8") as file:
            report = json.load(file)
        return next(value for name, value in report.items() if name.endswith("_per_sec"))

    def row(self, what, program, flags, launch=()):
        pairs = [(self.rate(False, program, flags, launch), self.rate(True, program, flags, launch)) for _ in range(self.options.repeats)]
        dense, sparse = (statistics.median(1000 * BATCH / rate for rate in column) for column in zip(*pairs))
        print(f"| {what} | {dense:.1f} | {sparse:.1f} | {statistics.median(b / a for a, b in pairs):.2f} |", flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--vocabulary", type=bench_run.positive, default=200_000)
    parser.add_argument("--steps", type=bench_run.positive, default=25, help="steps of a run (default 25)")
    parser.add_argument("--threads", type=bench_run.positive, default=1)
    parser.add_argument("--repeats", type=bench_run.positive, default=5)
    parser.add_argument("--language-model", action="store_true", help="measure word_lm, too, which takes minutes and 8 GB")
    return parser.parse_args()


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as folder:
        write(folder, options.vocabulary)
        comparison = Comparison(options, folder)
        text = [f"--vocabulary={options.vocabulary + 2}", f"--embedding={DIMENSION}", f"--text-length={WORDS}", "--optimizer=sgd",
                f"--num-steps={options.steps}", "--num-test-examples=4"]
        servers = [sys.executable, bench_run.LAUNCH, "-n", 1, "-s", 1]
        print(f"vocabulary {options.vocabulary}, dimension {DIMENSION}, batch {BATCH} of {WORDS} words, {options.threads} threads\n")
        print("| step | dense, ms | row-sparse, ms | times as fast |\n|---|---|---|---|")
        comparison.row("mean of words, one process", "train_text", [*text, "--network=text_mean", "--kv-store=local"])
        comparison.row("LSTM of 64, one process", "train_text", [*text, "--network=text_lstm", "--kv-store=local"])
        comparison.row("LSTM of 64, clipped", "train_text", [*text, "--network=text_lstm", "--kv-store=local", "--clip-global-norm=5"])
        comparison.row("LSTM of 64, dist_sync", "train_text", [*text, "--network=text_lstm", "--kv-store=dist_sync"], servers)
        if options.language_model:
            comparison.row("word_lm, 2 x 200", "word_lm", [f"--num-steps={min(options.steps, 9)}", "--num-layers=2", "--num-hidden=200",
                                                            "--num-embed=200", "--lr-plateau=0", "--num-test-examples=200", "--kv-store=local"])


if __name__ == "__main__":
    bench_run.started(main)
