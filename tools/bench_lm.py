#!/usr/bin/python3
"""A language model beside PyTorch's: the test perplexity after the same steps, and words per second with equal threads.

    sudo apt-get install bible-kjv && tools/get_kjv.py --out data/kjv
    tools/bench_lm.py --data-dir data/kjv

Two LSTM layers of 200, a vocabulary of 10,000, batch 32, 35 steps of truncated back-propagation with carried states, SGD,
gradients clipped to a norm of 5. Both begin with the same weights and take the same batches; Sluice's run has two workers
with half of each batch. The rates are medians of runs in turn, without the first five steps of each. Debian: python3-torch.
With --gpu both train on that card, TF32 off, and rates alone are measured.
"""
import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out
import bench_run

BATCH, EVAL_ROWS, END, UNKNOWN, FIRST = 32, 10, 2, 1, 3
MODEL = ["--num-layers=2", "--num-hidden=200", "--num-embed=200", "--disp-batches=0", "--lr-plateau=0", "--kv-store=local"]


def read_safetensors(torch, path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        content = bytearray(file.read())
    metadata = header.pop("__metadata__")
    arrays = {name: torch.frombuffer(content, dtype=torch.float32, offset=entry["data_offsets"][0],
                                     count=(entry["data_offsets"][1] - entry["data_offsets"][0]) // 4).reshape(entry["shape"])
              for name, entry in header.items()}
    return arrays, metadata


def batches(torch, path, ids, rows, steps):
    """Inputs and labels of each step, as ContinuousText has them."""
    with open(path, encoding="utf-8") as file:
        text = [END]
        for line in file:
            if words := line.split():
                text += [ids.get(word, UNKNOWN) for word in words] + [END]
    length = (len(text) - 1) // rows // steps * steps
    text = torch.tensor(text)
    inputs, labels = (text[begin : begin + rows * length].reshape(rows, length) for begin in (0, 1))
    return [(inputs[:, i : i + steps], labels[:, i : i + steps]) for i in range(0, length, steps)]


def network(torch, arrays):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            vocabulary = arrays["embed.weight"].shape[0]
            self.embed = torch.nn.Embedding(vocabulary, 200)
            self.lstm = torch.nn.LSTM(200, 200, 2, batch_first=True)
            self.decode = torch.nn.Linear(200, vocabulary)

        def forward(self, x, states):
            y, states = self.lstm(self.embed(x), states)
            return self.decode(y), states

    model = Model()
    with torch.no_grad():
        model.embed.weight.copy_(arrays["embed.weight"])
        model.decode.weight.copy_(arrays["decode.weight"])
        model.decode.bias.copy_(arrays["decode.bias"])
        for layer in range(2):
            for ours, theirs in (("i2h_weight", "weight_ih"), ("h2h_weight", "weight_hh"), ("i2h_bias", "bias_ih"), ("h2h_bias", "bias_hh")):
                getattr(model.lstm, f"{theirs}_l{layer}").copy_(arrays[f"layer{layer}.l0_{ours}"])
    return model


def loss_of(torch, model, x, y, states):
    scores, states = model(x, states)
    loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), y.flatten(), reduction="sum")
    return loss, tuple(state.detach() for state in states)


def train(torch, model, training, steps, rate):
    """Returns the seconds."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, foreach=True)
    states, start = None, time.perf_counter()
    for step in range(steps):
        x, y = training[step % len(training)]
        if step % len(training) == 0:
            states = None
        optimizer.zero_grad(set_to_none=True)
        loss, states = loss_of(torch, model, x, y, states)
        (loss / BATCH).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5)
        optimizer.step()
    if training[0][0].is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


def perplexity(torch, model, test):
    with torch.no_grad():
        total, tokens, states = 0.0, 0, None
        for x, y in test:
            loss, states = loss_of(torch, model, x, y, states)
            total, tokens = total + loss.item(), tokens + y.numel()
    return float(torch.exp(torch.tensor(total / tokens, dtype=torch.float64)))


class Comparison:
    def __init__(self, torch, options, folder):
        self.torch, self.options, self.folder = torch, options, folder
        self.start = os.path.join(folder, "start.safetensors")
        self.sluice("--num-steps=0", f"--vocabulary={options.vocabulary}", f"--save-params={self.start}")
        self.arrays, metadata = read_safetensors(torch, self.start)
        words = metadata["vocabulary"].split("\n")[:-1]
        ids = {word: i for i, word in enumerate(words) if i >= FIRST} | {"<unk>": UNKNOWN, "<eos>": END}
        self.training = batches(torch, os.path.join(options.data_dir, "train.txt"), ids, BATCH, options.bptt)
        self.test = batches(torch, os.path.join(options.data_dir, "test.txt"), ids, EVAL_ROWS, options.bptt)
        self.vocabulary = len(words)
        self.device = "cpu" if options.gpu is None else f"cuda:{options.gpu}"
        self.training = [(x.to(self.device), y.to(self.device)) for x, y in self.training]

    def sluice(self, *flags, launch=(), threads=None):
        settings = {} if threads is None else {"OMP_NUM_THREADS": str(threads), "SLUICE_CPU_THREADS": str(threads)}
        own = [] if launch else [f"--batch-size={BATCH}"]
        if self.options.gpu is not None:
            own.append(f"--gpus={self.options.gpu}")
        return bench_run.run(*launch, os.path.join(bench_run.PROGRAMS, "word_lm"), f"--data-dir={self.options.data_dir}", *MODEL, *own,
                             f"--steps={self.options.bptt}", f"--lr={self.options.lr}", *flags, **settings)

    def perplexities(self):
        out = self.sluice(f"--num-steps={self.options.steps}", f"--load-params={self.start}", "--kv-store=dist_sync", "--batch-size=16",
                          launch=[sys.executable, bench_run.LAUNCH, "-n", 2, "-s", 1])
        ours = float(re.search(r"final test perplexity (\S+)", out).group(1))
        model = network(self.torch, self.arrays)
        train(self.torch, model, self.training, self.options.steps, self.options.lr)
        return ours, perplexity(self.torch, model, self.test)

    def rate_of_sluice(self, threads):
        path = os.path.join(self.folder, "report.json")
        self.sluice(f"--num-steps={self.options.rate_steps}", f"--load-params={self.start}", "--num-test-examples=40", f"--json={path}",
                    threads=threads)
        with open(path, encoding="utf-8") as file:
            return json.load(file)["pieces_per_sec"] * self.options.bptt

    def rate_of_pytorch(self, threads):
        self.torch.set_num_threads(threads)
        model = network(self.torch, self.arrays).to(self.device)
        train(self.torch, model, self.training, 5, self.options.lr)
        seconds = train(self.torch, model, self.training, self.options.rate_steps, self.options.lr)
        return self.options.rate_steps * BATCH * self.options.bptt / seconds


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data-dir", required=True, help="folder with train.txt and test.txt")
    parser.add_argument("--steps", type=bench_run.positive, default=500, help="steps before the perplexities (default 500)")
    parser.add_argument("--rate-steps", type=bench_run.positive, default=60, help="steps of a run that is timed (default 60)")
    parser.add_argument("--bptt", type=bench_run.positive, default=35, help="words of a step (default 35)")
    parser.add_argument("--vocabulary", type=bench_run.positive, default=10_000, help="the most frequent words (default 10,000)")
    # With 0.1 the first hundred steps swing so far that roundings grow to differences of 5 % in perplexity.
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--threads", type=bench_run.positive, default=1)
    parser.add_argument("--gpu", type=int, metavar="N", help="train on gpu(N), and measure rates alone")
    parser.add_argument("--repeats", type=bench_run.positive, default=5)
    return parser.parse_args()


def main():
    options = parse()
    try:
        import torch
    except ImportError:
        print("bench_lm.py: there is no PyTorch here (Debian: python3-torch)", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(torch, options, folder)
        print(f"vocabulary {comparison.vocabulary}, PyTorch {torch.__version__}", flush=True)
        if options.gpu is None:
            ours, theirs = comparison.perplexities()
            print(f"test perplexity after {options.steps} steps: Sluice, 2 workers {ours:.2f}, PyTorch {theirs:.2f}, ratio {ours / theirs:.4f}",
                  flush=True)
        rates = [(comparison.rate_of_sluice(options.threads), comparison.rate_of_pytorch(options.threads)) for _ in range(options.repeats)]
        mine, other = (statistics.median(column) for column in zip(*rates))
        where = f"{options.threads} threads each" if options.gpu is None else f"gpu({options.gpu}), TF32 off"
        print(f"words/s, {where}, medians of {options.repeats}: Sluice {mine:.0f}, PyTorch {other:.0f}, "
              f"ratio {statistics.median(a / b for a, b in rates):.2f}")


if __name__ == "__main__":
    bench_run.started(main)
