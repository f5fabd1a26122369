"""
Few exchanges: DiLoCo
=====================

Where workers are joined by slow links, gradients of every step take longer than the steps. With DiLoCo each worker makes
many steps by itself, and servers then update the parameters by what all workers have moved. This page trains a small
language model over characters by four workers, with an exchange in every step and with one in twenty, and counts bytes.

Run it: ``python docs/tutorials/low_communication.py``
"""
import os
import random

import sluice
import sluice.torch as st
import torch
from torch import nn

QUICK = os.environ.get("SLUICE_TUTORIAL") == "quick"
STEPS, EVERY, BATCH, LENGTH = (80, 20, 16, 24) if QUICK else (400, 20, 32, 48)
WORDS = "the servers keep what workers learn and every worker goes on from there while others read".split()
CHARACTERS = sorted(set(" ".join(WORDS)))

# %%
# Data and a model
# ----------------
# Sentences of a few words, so that the page needs no file: whoever knows the words knows most of the next characters.


def text(seed, length=20000):
    draw = random.Random(seed)
    return torch.tensor([CHARACTERS.index(c) for c in " ".join(draw.choice(WORDS) for _ in range(length // 5))])


def batches(rank, steps):
    """Each worker reads a text of its own."""
    own, draw = text(seed=10 + rank), random.Random(rank)
    for _ in range(steps):
        starts = [draw.randrange(len(own) - LENGTH - 1) for _ in range(BATCH)]
        rows = torch.stack([own[s:s + LENGTH + 1] for s in starts])
        yield rows[:, :-1], rows[:, 1:]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(len(CHARACTERS), 32)
        self.recurrent = nn.GRU(32, 64, batch_first=True)
        self.decoder = nn.Linear(64, len(CHARACTERS))

    def forward(self, x):
        return self.decoder(self.recurrent(self.embedding(x))[0])


def loss_of(model, x, y):
    return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


# %%
# Two ways to train
# -----------------
# The first averages the gradients of every step. The second is the plain loop of one process with one more line.


def every_step():
    torch.set_num_threads(1)
    model = Model()
    optimizer = st.DistributedOptimizer(torch.optim.Adam(model.parameters(), 5e-3), model.named_parameters())
    st.broadcast_parameters(model.state_dict())
    for x, y in batches(st.rank(), STEPS):
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        optimizer.step()
    return tested(model), STEPS


def every_twentieth():
    torch.set_num_threads(1)
    model = Model()
    inner = torch.optim.Adam(model.parameters(), 5e-3)
    outer = st.DiLoCo(model, sync_every=EVERY)
    for x, y in batches(st.rank(), STEPS):
        inner.zero_grad()
        loss_of(model, x, y).backward()
        inner.step()
        outer.step()
    return tested(model), STEPS // EVERY


def tested(model):
    with torch.no_grad():
        return sum(float(loss_of(model, x, y)) for x, y in batches(99, 10)) / 10


# %%
# What it costs
# -------------
# An exchange sends the parameters' bytes once each way.

if __name__ == "__main__":
    size = sum(p.numel() * p.element_size() for p in Model().parameters())
    untrained = tested(Model())
    losses = []
    for name, way in (("every step", every_step), ("every twentieth", every_twentieth)):
        loss, exchanges = sluice.run(way, workers=4, servers=1, timeout=600)[0]
        losses.append(loss)
        print(f"{name:16} {exchanges:4} exchanges, {2 * size * exchanges / 1e6:7.1f} MB a worker, loss {loss:.3f}")
    print(f"{'untrained':16} {'':15} {'':20} loss {untrained:.3f}")
    assert max(losses) < 0.6 * untrained
