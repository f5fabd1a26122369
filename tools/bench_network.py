#!/usr/bin/env python3
"""Overlap and compression on a network: LeNet on 2 workers, 2 servers and a scheduler, each a host of its own (tools/lab.py).

Prints how long a step takes with overlap and priorities, without, and with pushes of 2 bits, beside what tools/step_model.py
predicts from a run on links without a limit; with weights of 16 bits too; then a timeline of a step. With --seeds and MNIST also
what accuracy training comes to, over those links. Needs root and `make programs`. All hosts share this machine's cores: one thread
for each worker.
"""
import argparse
import os
import pathlib
import re
import secrets
import select
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out
import bench_machine
import bench_run
import lab
import step_model

WORKERS, SERVERS = 2, 2
PORT = 9000
JOB_DEADLINE, TRAINING_DEADLINE = 300.0, 1800.0  # seconds
RATE, BYTES_PER_MS = "1gbit", 125e3 * 1448 / 1538  # payload's share: headers and the gaps between frames take the rest
TWO_BITS = ("--gc-type", "2bit", "--gc-threshold", 2)  # about the large sums of a batch's gradient: docs/kvstore.md
MODES = {"with overlap and priorities": (), "without": ("--overlap=false",), "with overlap, 2bit": TWO_BITS,
         "with overlap, 2bit, weights fp16": (*TWO_BITS, "--gc-weights", "fp16"),
         "with overlap, fp16 both ways": ("--gc-type", "fp16", "--gc-weights", "fp16")}
EPOCHS = 10
SIZES = {"conv1.weight": 2000, "conv1.bias": 80, "conv2.weight": 100000, "conv2.bias": 200, "fc1.weight": 1600000,
         "fc1.bias": 2000, "fc2.weight": 20000, "fc2.bias": 40}
COLUMNS = 72


def roles(worker, workers, servers):
    yield "scheduler", 0, [bench_run.program("sluice_scheduler")]
    for rank in range(servers):
        yield "server", rank, [bench_run.program("sluice_server")]
    for rank in range(workers):
        yield "worker", rank, worker


def job(hosts, *worker, workers=WORKERS, servers=SERVERS, deadline=JOB_DEADLINE):
    """What worker 0 prints. Each process has a host of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DMLC_", "PS_", "SLUICE_"))}
    environment = kept | {"DMLC_NUM_WORKER": str(workers), "DMLC_NUM_SERVER": str(servers), "DMLC_PS_ROOT_URI": hosts.addresses[0],
                          "DMLC_PS_ROOT_PORT": str(PORT), "SLUICE_JOB_SECRET": secrets.token_hex(16),
                          "SLUICE_CPU_THREADS": "1", "SLUICE_SERVER_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for host, (role, rank, command) in enumerate(roles(worker, workers, servers)):
            log = os.path.join(folder, f"{role} {rank}")
            with open(log, "wb") as output:
                process = hosts.start(host, command, stdout=output, stderr=output,
                                      env=environment | {"DMLC_ROLE": role, "DMLC_RANK": str(rank)})
            processes.append((process, log))
        await_all([process for process, _ in processes], deadline)
        texts = [pathlib.Path(log).read_text(encoding="utf-8", errors="replace") for _, log in processes]
    for (role, rank, _), (process, _), text in zip(roles(worker, workers, servers), processes, texts):
        if process.returncode:
            sys.exit(f"{bench_run.script()}: {role} {rank} ended with {process.returncode}:\n{text}")
    return texts[1 + servers]


def await_all(processes, deadline):
    """Until all have ended, or one in failure. The hosts end the others."""
    end, left = time.monotonic() + deadline, {os.pidfd_open(process.pid): process for process in processes}
    try:
        while left:
            ended, _, _ = select.select(left, [], [], end - time.monotonic()) if time.monotonic() < end else ([], [], [])
            if not ended:
                sys.exit(f"{bench_run.script()}: a job of {deadline:.0f} s has not ended")
            codes = [left[handle].wait() for handle in ended]
            for handle in ended:
                os.close(handle)
                del left[handle]
            if any(codes):
                return
    finally:
        for handle in left:
            os.close(handle)


def train(hosts, args, *flags):
    return job(hosts, bench_run.program("train_bench"), "--kv-store", "dist_sync", "--loader", "--batch-size", str(args.batch_size),
               "--steps", str(args.steps), *flags)


def measured(hosts, args, flags):
    """(ms of a step, bytes that a worker pushes and pulls in it)"""
    result = bench_run.objects(train(hosts, args, "--repeats", "1", *flags))[0]
    return WORKERS * args.batch_size * 1e3 / result["images_per_sec"], result["pushed_bytes"], result["pulled_bytes"]


def accuracy(hosts, seed, flags):
    """In points: of the training whose step was measured, on MNIST."""
    text = job(hosts, bench_run.program("train_mnist"), "--kv-store", "dist_sync", "--network", "lenet", "--data-dir", os.environ["SLUICE_MNIST"],
               "--num-epochs", EPOCHS, "--disp-batches", 0, "--seed", seed, *flags, deadline=TRAINING_DEADLINE)
    return 100 * float(re.search(r"final test accuracy (\S+)", text).group(1))


class Trace:
    """The times that train_bench --trace prints, in ms."""

    def __init__(self, text):
        rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
        moments = lambda row: [0.0 if cell == "-" else float(cell) / 1e3 for cell in row[1:]]  # noqa: E731
        self.keys = {row[0]: moments(row) for row in rows}  # written, left, arrived, there, wanted, waited
        of = lambda what: float(re.search(rf"{what} (\d+)", text).group(1)) / 1e3  # noqa: E731
        self.backward, self.step, self.waits = of("Backward ends at"), of("the next step begins at"), of("waits together:")



def predictions(hosts, args):
    """By mode: how a step is predicted that pushes and pulls such shares of the bytes."""
    hosts.set_rate(None)
    both, alone = Trace(train(hosts, args, "--trace")), Trace(train(hosts, args, "--trace", "--overlap=false"))
    written, _, _, there, _, _ = alone.keys["conv1.bias"]
    first, *_ = wanted = [each[4] for each in alone.keys.values()]
    profiles = {overlap: step_model.Profile(list(SIZES.values()), [each - first for each in wanted],
                                            [both.backward - each[0] for each in both.keys.values()], length, there - written)
                for overlap, length in ((True, both.step - both.waits), (False, alone.backward))}
    return lambda mode, pushed, pulled: step_model.step_ms(profiles[mode != "without"], BYTES_PER_MS, mode != "without", pushed,
                                                           part_bytes=step_model.part_of(max(SIZES.values()) / SERVERS), pull_share=pulled)


def timeline(trace):
    """A line a key: '.' waits for more urgent ones, '>' to the server, '<' and back, 'w' the next forward waits, 'F' it goes on."""
    end = max(max(each[3], each[4] + each[5]) for each in trace.keys.values()) * 1.02
    at = lambda ms: min(COLUMNS - 1, int(ms / end * COLUMNS))  # noqa: E731
    lines = [f"{'':13}|" + "backward ends, the next step begins |".rjust(at(trace.step)) + f"   {end:.0f} ms at the right"]
    for key, (written, left, arrived, there, wanted, waited) in trace.keys.items():
        line = [" "] * COLUMNS
        for mark, first, last in ((".", written, left), (">", left, arrived), ("<", arrived, there), ("w", wanted, wanted + waited)):
            if last - first > end / COLUMNS / 2:
                line[at(first):at(last) + 1] = mark * (at(last) + 1 - at(first))
        line[at(wanted + waited)] = "F"
        line[at(written)] = "g"
        lines.append(f"{key:13}|" + "".join(line).rstrip())
    return "\n".join(lines)


def report_accuracy(args, hosts):
    if args.seeds == 0:
        return
    rows = []
    for mode in (mode for mode in MODES if mode != "without"):  # whose sums are the same
        each = [accuracy(hosts, seed, MODES[mode]) for seed in range(1, args.seeds + 1)]
        plain = each if not rows else plain
        rows.append((mode, f"{statistics.median(each):.2f}", f"{min(each):.2f}", f"{max(each):.2f}",
                     f"{statistics.median(a - b for a, b in zip(each, plain)):+.2f}"))
    print(f"\nAfter {EPOCHS} epochs of MNIST, {args.seeds} seeds:\n")
    bench_run.table(("gradients leave", "accuracy, %", "least", "most", "against none, points"), rows)


def report(args, hosts):
    predicted = predictions(hosts, args)
    hosts.set_rate(RATE)
    runs = bench_run.in_turns(args.pairs, *(lambda flags=flags: measured(hosts, args, flags) for flags in MODES.values()))
    columns = [list(zip(*each)) for each in runs]
    without, *_ = columns[list(MODES).index("without")]
    total = sum(SIZES.values())
    rows = []
    for mode, (steps, *sizes) in zip(MODES, columns):
        pushed, pulled = map(statistics.median, sizes)
        model = predicted(mode, pushed / total, pulled / total)
        rows.append((mode, f"{pushed:,.0f}", f"1/{total / pushed:.1f}", f"{pulled:,.0f}", f"{statistics.median(steps):.1f}", f"{min(steps):.1f}",
                     f"{model:.1f}", f"{statistics.median(steps) / model:.2f}", f"{bench_run.ratio(steps, without):.2f}"))
    bench_run.table(("gradients leave", "pushed bytes", "of all", "pulled bytes", "step, ms", "least", "predicted", "measured / predicted",
                     "of the step without"), rows)
    report_accuracy(args, hosts)
    print("\ng: the gradient is written  .: it waits for more urgent ones  >: on its way to the server  <: the round closes and the "
          "weight comes back\nw: the next forward waits for it  F: the next forward has it")
    for mode in list(MODES)[:2]:
        print(f"\nLeNet {mode}:\n\n```\n{timeline(Trace(train(hosts, args, '--trace', *MODES[mode])))}\n```", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-size", type=bench_run.positive, default=64)
    parser.add_argument("--pairs", type=bench_run.positive, default=5, help="measurements of each figure, in turns (default 5)")
    parser.add_argument("--steps", type=bench_run.positive, default=100, help="steps of each measurement (default 100)")
    parser.add_argument("--seeds", type=int, choices=range(10), default=0, metavar="N",
                        help="train so many times on the MNIST of SLUICE_MNIST, some three minutes for each of four rows (default 0)")
    parser.add_argument("--delay-ms", type=float, default=0, help="delay of every packet, beside the link's own time (default 0)")
    args = parser.parse_args()
    bench_run.require_programs("train_bench", "train_mnist", "sluice_scheduler", "sluice_server")
    if args.seeds and not os.path.isdir(os.environ.get("SLUICE_MNIST", "")):
        parser.error("--seeds: SLUICE_MNIST names no folder with MNIST; tools/get_mnist.py fetches it")
    print(f"Machine:\n\n{bench_machine.describe()}\n", flush=True)
    try:
        with lab.Hosts(1 + SERVERS + WORKERS, delay_ms=args.delay_ms) as hosts:
            report(args, hosts)
    except lab.Unavailable as why:
        sys.exit(f"{bench_run.script()}: {why}")


if __name__ == "__main__":
    bench_run.started(main)
