#!/usr/bin/python3
"""Writes reference.txt beside itself: trajectories of PyTorch's optimisers in float64, where their definition is ours.

Weights and gradients are drawn once from a seed, as float32 numbers. Each case starts from the same weights; its
weights are recorded after the updates in RECORDED. PyTorch has no clipping of single elements inside an optimiser:
the gradient is clamped before the step, which is where ours clips (before weight decay).
Debian: python3-torch.
"""
import pathlib
import random
import struct

import torch

UPDATES = 100
RECORDED = (1, 2, 3, 5, 10, 20, 50, 75, 100)
SIZE = 4

# name, kind, fields of OptimizerConfig
CASES = [
    ("sgd", "sgd", {"learning_rate": 0.1}),
    ("sgd_decay_clip", "sgd", {"learning_rate": 0.1, "wd": 0.01, "clip_gradient": 0.5}),
    ("sgd_momentum", "sgd", {"learning_rate": 0.05, "momentum": 0.9}),
    ("sgd_momentum_decay_clip", "sgd", {"learning_rate": 0.05, "momentum": 0.9, "wd": 0.01, "clip_gradient": 0.5}),
    ("nag", "nag", {"learning_rate": 0.05, "momentum": 0.9}),
    ("nag_decay_clip", "nag", {"learning_rate": 0.05, "momentum": 0.9, "wd": 0.01, "clip_gradient": 0.5}),
    ("adam", "adam", {"learning_rate": 0.01}),
    ("adam_decay_clip", "adam", {"learning_rate": 0.01, "wd": 0.01, "clip_gradient": 0.5}),
    ("adam_large_epsilon", "adam", {"learning_rate": 0.01, "beta1": 0.8, "beta2": 0.95, "epsilon": 0.1}),
]


def float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def optimizer_of(kind, fields, weight):
    common = {"lr": fields["learning_rate"], "weight_decay": fields.get("wd", 0)}
    if kind == "adam":
        betas = (fields.get("beta1", 0.9), fields.get("beta2", 0.999))
        return torch.optim.Adam([weight], betas=betas, eps=fields.get("epsilon", 1e-8), **common)
    return torch.optim.SGD([weight], momentum=fields.get("momentum", 0), nesterov=kind == "nag", **common)


def trajectory(kind, fields, start, gradients):
    weight = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    optimizer = optimizer_of(kind, fields, weight)
    for update, gradient in enumerate(gradients, start=1):
        weight.grad = torch.tensor(gradient, dtype=torch.float64)
        if "clip_gradient" in fields:
            weight.grad.clamp_(-fields["clip_gradient"], fields["clip_gradient"])
        optimizer.step()
        if update in RECORDED:
            yield update, weight.detach().tolist()


def line(word, *values):
    return " ".join([word, *(repr(value) if isinstance(value, float) else str(value) for value in values)])


def main():
    draw = random.Random(1)
    start = [float32(draw.gauss(0, 1)) for _ in range(SIZE)]
    gradients = [[float32(draw.gauss(0, 1)) for _ in range(SIZE)] for _ in range(UPDATES)]
    lines = [f"# make_reference.py, PyTorch {torch.__version__}, float64", line("weight", *start)]
    lines += [line("gradient", *gradient) for gradient in gradients]
    for name, kind, fields in CASES:
        lines.append(line("case", name, kind, *(f"{field}={value}" for field, value in fields.items())))
        lines += [line("after", update, *weights) for update, weights in trajectory(kind, fields, start, gradients)]
    pathlib.Path(__file__).with_name("reference.txt").write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
