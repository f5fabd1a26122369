#!/usr/bin/python3
"""Writes reference.txt beside itself: trajectories in float64 of PyTorch's optimisers, where their definition is ours,
and for those that PyTorch lacks of the published algorithms, written down below.

Weights and gradients are drawn once from a seed, as float32 numbers. Each case starts from the same weights; its
weights are recorded after the updates in RECORDED. PyTorch has no clipping of single elements inside an optimiser:
the gradient is clamped before the step, which is where ours clips (before weight decay).
Debian: python3-torch.
"""
import math
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
    ("adamw", "adamw", {"learning_rate": 0.01}),
    ("adamw_decay_clip", "adamw", {"learning_rate": 0.01, "wd": 0.1, "clip_gradient": 0.5, "epsilon": 1e-6}),
    ("adagrad", "adagrad", {"learning_rate": 0.1}),
    ("adagrad_decay_clip", "adagrad", {"learning_rate": 0.1, "wd": 0.01, "clip_gradient": 0.5, "epsilon": 0.01}),
    ("rmsprop", "rmsprop", {"learning_rate": 0.01}),
    ("rmsprop_decay_clip", "rmsprop", {"learning_rate": 0.01, "wd": 0.01, "clip_gradient": 0.5, "rho": 0.99}),
    ("rmsprop_momentum", "rmsprop", {"learning_rate": 0.01, "momentum": 0.9, "epsilon": 0.01}),
    # Ours has the epsilon of centred variances inside the root.
    ("rmsprop_centered", "rmsprop", {"learning_rate": 0.01, "centered": 1, "epsilon": 0.0}),
    ("rmsprop_centered_momentum_decay_clip", "rmsprop",
     {"learning_rate": 0.01, "centered": 1, "epsilon": 0.0, "momentum": 0.9, "wd": 0.01, "clip_gradient": 0.5, "rho": 0.95}),
    ("ftrl", "ftrl", {"learning_rate": 0.1}),
    ("ftrl_decay_clip", "ftrl", {"learning_rate": 0.1, "wd": 0.1, "clip_gradient": 0.5}),
    ("ftrl_sparse", "ftrl", {"learning_rate": 0.1, "lambda1": 2.0, "beta": 0.25}),
    ("lamb", "lamb", {"learning_rate": 0.01, "epsilon": 1e-6}),
    ("lamb_decay_clip", "lamb", {"learning_rate": 0.01, "epsilon": 1e-6, "wd": 0.1, "clip_gradient": 0.5}),
    ("lamb_upper_bound", "lamb", {"learning_rate": 0.01, "wd": 0.01, "upper_bound": 0.5}),
    ("lamb_lower_bound", "lamb", {"learning_rate": 0.01, "wd": 0.01, "lower_bound": 4.0}),
    ("delayed_nag", "delayed_nag", {"learning_rate": 0.05, "momentum": 0.9, "updates_per_step": 3}),
    ("delayed_nag_decay_clip", "delayed_nag",
     {"learning_rate": 0.05, "momentum": 0.9, "wd": 0.01, "clip_gradient": 0.5, "updates_per_step": 4}),
    ("signsgd_decay", "signum", {"learning_rate": 0.01, "wd": 0.1}),
    ("signum", "signum", {"learning_rate": 0.01, "momentum": 0.9}),
    ("signum_decay_clip", "signum",
     {"learning_rate": 0.01, "momentum": 0.9, "wd": 0.1, "wd_lh": 0.5, "clip_gradient": 0.5}),
]


def float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def optimizer_of(kind, fields, weight):
    common = {"lr": fields["learning_rate"], "weight_decay": fields.get("wd", 0)}
    epsilon = fields.get("epsilon", 1e-8)
    if kind in ("adam", "adamw"):
        betas = (fields.get("beta1", 0.9), fields.get("beta2", 0.999))
        return (torch.optim.Adam if kind == "adam" else torch.optim.AdamW)([weight], betas=betas, eps=epsilon, **common)
    if kind == "adagrad":
        return torch.optim.Adagrad([weight], eps=epsilon, **common)
    momentum = fields.get("momentum", 0)
    if kind == "rmsprop":
        return torch.optim.RMSprop([weight], alpha=fields.get("rho", 0.9), eps=epsilon, momentum=momentum,
                                   centered=bool(fields.get("centered")), **common)
    return torch.optim.SGD([weight], momentum=momentum, nesterov=kind == "nag", **common)


def in_pytorch(kind, fields, start, gradients):
    weight = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    optimizer = optimizer_of(kind, fields, weight)
    for gradient in gradients:
        weight.grad = torch.tensor(gradient, dtype=torch.float64)
        if "clip_gradient" in fields:
            weight.grad.clamp_(-fields["clip_gradient"], fields["clip_gradient"])
        optimizer.step()
        yield weight.detach().tolist()


def sign(x):
    return (x > 0) - (x < 0)


def clipped(fields, gradient):
    bound = fields.get("clip_gradient", math.inf)
    return [max(-bound, min(bound, g)) for g in gradient]


def ftrl(fields, w, gradients):
    """McMahan et al., Ad Click Prediction: a View from the Trenches, KDD 2013, algorithm 1, from w: its z begins where the objective
    has its minimum at w."""
    alpha, lambda_2 = fields["learning_rate"], fields.get("wd", 0.0)
    lambda_1, beta = fields.get("lambda1", 0.01), fields.get("beta", 1.0)
    z, n = [-x * (beta / alpha + lambda_2) - sign(x) * lambda_1 for x in w], [0.0] * len(w)
    for gradient in gradients:
        for i, g in enumerate(clipped(fields, gradient)):
            sigma = (math.sqrt(n[i] + g * g) - math.sqrt(n[i])) / alpha
            z[i] += g - sigma * w[i]
            n[i] += g * g
            dense = -(z[i] - sign(z[i]) * lambda_1) / ((beta + math.sqrt(n[i])) / alpha + lambda_2)
            w[i] = dense if abs(z[i]) > lambda_1 else 0.0
        yield w


def lamb(fields, x, gradients):
    """You et al., Large Batch Optimization for Deep Learning, ICLR 2020, algorithm 2; phi bounds the norm."""
    beta_1, beta_2, epsilon = fields.get("beta1", 0.9), fields.get("beta2", 0.999), fields.get("epsilon", 1e-8)
    m, v = [0.0] * len(x), [0.0] * len(x)
    for t, gradient in enumerate(gradients, start=1):
        g = clipped(fields, gradient)
        m = [beta_1 * a + (1 - beta_1) * b for a, b in zip(m, g)]
        v = [beta_2 * a + (1 - beta_2) * b * b for a, b in zip(v, g)]
        r = [a / (1 - beta_1**t) / (math.sqrt(b / (1 - beta_2**t)) + epsilon) for a, b in zip(m, v)]
        step = [a + fields.get("wd", 0.0) * b for a, b in zip(r, x)]
        phi = min(max(math.hypot(*x), fields.get("lower_bound", 0.0)), fields.get("upper_bound", math.inf))
        rate = fields["learning_rate"] * phi / math.hypot(*step)
        x = [a - rate * b for a, b in zip(x, step)]
        yield x


def delayed_nag(fields, x, gradients):
    """Liu et al., Asynchronous Local-SGD Training for Language Modeling, arXiv 2401.09135, algorithm 3 with c = 0; a gradient here is the
    pseudo-gradient divided by N."""
    beta, rate, every = fields["momentum"], fields["learning_rate"], fields["updates_per_step"]
    m, gathered = [0.0] * len(x), [0.0] * len(x)
    for t, gradient in enumerate(gradients, start=1):
        g = [a + fields.get("wd", 0.0) * b for a, b in zip(clipped(fields, gradient), x)]
        gathered = [a + b for a, b in zip(gathered, g)]
        if t % every == 0:
            m = [beta * a + b for a, b in zip(m, gathered)]
            x = [a - rate * (beta * b + c) for a, b, c in zip(x, m, g)]
            gathered = [0.0] * len(x)
        else:
            x = [a - rate * b for a, b in zip(x, g)]
        yield x


def signum(fields, x, gradients):
    """Bernstein et al., signSGD, ICML 2018, algorithm 2; wd_lh as Apache MXNet's Signum."""
    beta, rate = fields.get("momentum", 0.0), fields["learning_rate"]
    m = [0.0] * len(x)
    for gradient in gradients:
        decayed = [g + fields.get("wd", 0.0) * a for g, a in zip(clipped(fields, gradient), x)]
        m = [beta * a + (1 - beta) * g for a, g in zip(m, decayed)]
        x = [(1 - rate * fields.get("wd_lh", 0.0)) * a - rate * sign(b) for a, b in zip(x, m)]
        yield x


def trajectory(kind, fields, start, gradients):
    published = {"ftrl": ftrl, "lamb": lamb, "delayed_nag": delayed_nag, "signum": signum}
    if kind in published:
        steps = published[kind](fields, list(start), gradients)
    else:
        steps = in_pytorch(kind, fields, start, gradients)
    for update, weights in enumerate(steps, start=1):
        if update in RECORDED:
            yield update, list(weights)


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
