"""
PyTorch: from one process to two workers
========================================

A script that trains a network in one process becomes one for a job by four lines: ``init``, a ``DistributedOptimizer``,
the broadcast of rank 0's parameters, and a sampler that gives each worker its share of every batch. What comes out is
what one process computes with the whole batch.

Run it: ``python docs/tutorials/pytorch_mnist.py [FOLDER]``, with a folder of MNIST's four files
(``python tools/get_mnist.py FOLDER`` fetches them), or with digits that the script draws.
"""
import gzip
import os
import pathlib
import sys

import numpy as np
import sluice
import sluice.torch as st
import torch
from torch import nn

QUICK = os.environ.get("SLUICE_TUTORIAL") == "quick"

# %%
# Data
# ----


def idx(folder, name):
    """An array of one of MNIST's files, packed or not."""
    path = pathlib.Path(folder) / name
    data = path.read_bytes() if path.exists() else gzip.decompress(path.with_name(name + ".gz").read_bytes())
    shape = np.frombuffer(data, ">i4", count=data[3], offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def drawn(count, seed):
    """Pictures of ten shapes, each at some place and with noise."""
    shapes = np.random.default_rng(0).random((10, 20, 20)) < 0.3
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    pictures = random.normal(0, 0.3, (count, 28, 28))
    for picture, label, (row, column) in zip(pictures, labels, random.integers(0, 9, (count, 2))):
        picture[row:row + 20, column:column + 20] += shapes[label]
    return pictures, labels


def dataset(folder, part):
    if folder is None:
        pictures, labels = drawn({"train": 4000 if QUICK else 6000, "t10k": 1000}[part], seed=1 if part == "train" else 2)
    else:
        pictures, labels = idx(folder, f"{part}-images-idx3-ubyte") / 255, idx(folder, f"{part}-labels-idx1-ubyte")
    return torch.utils.data.TensorDataset(torch.tensor(pictures, dtype=torch.float32)[:, None], torch.tensor(labels, dtype=torch.int64))


def lenet():
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(800, 500), nn.Tanh(), nn.Linear(500, 10))


# %%
# Training
# --------
# The lines with ``st`` are the new ones. In one process without a job they do nothing but cost little, so that the
# script stays one.


def train(folder, batch_size=64):
    torch.set_num_threads(1)
    st.init()
    model = lenet()
    plain = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    optimizer = st.DistributedOptimizer(plain, model.named_parameters())
    st.broadcast_parameters(model.state_dict())

    data = dataset(folder, "train")
    sampler = st.DistributedSampler(data, seed=1)
    loader = torch.utils.data.DataLoader(data, batch_size // st.size(), sampler=sampler, drop_last=True)
    for epoch in range(2 if QUICK else 4):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()  # returns with the averages of all workers
            optimizer.step()

    with torch.no_grad():
        tested = dataset(folder, "t10k")
        right = sum(int((model(x).argmax(1) == y).sum()) for x, y in torch.utils.data.DataLoader(tested, 500))
    return right / len(tested), [p.detach().numpy() for p in model.parameters()]


# %%
# Both ways
# ---------

if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    accuracy, parameters = train(folder)
    print(f"one process: {accuracy:.4f}")
    for rank, (also, others) in enumerate(sluice.run(train, (folder,), workers=2, servers=2, timeout=600)):
        apart = max(float(np.abs(a - b).max()) for a, b in zip(parameters, others))
        print(f"worker {rank}: {also:.4f}; parameters differ by at most {apart:.1e} from those of one process")
        assert abs(also - accuracy) < 0.01
    assert accuracy > (0.8 if QUICK else 0.95)
