"""An independent LeNet: PyTorch in float64, as the promise of data parallelism is measured against it.

Takes the parameters that a run started from and the same batches (no shuffle), and returns what they are after some steps of
SGD with momentum on the mean softmax cross-entropy.
"""
import gzip
import pathlib

import numpy as np
import torch


def read_idx(path):
    path = pathlib.Path(path)
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as file:
        data = file.read()
    ndim = data[3]
    shape = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(ndim)]
    return np.frombuffer(data[4 + 4 * ndim :], dtype=np.uint8).reshape(shape)


def find_idx(folder, stem):
    for name in (stem, stem + ".gz"):
        path = pathlib.Path(folder) / name
        if path.exists():
            return path
    raise FileNotFoundError(f"no {stem}[.gz] in {folder}")


def training_set(folder):
    images = read_idx(find_idx(folder, "train-images-idx3-ubyte")).astype(np.float64) / 255.0
    labels = read_idx(find_idx(folder, "train-labels-idx1-ubyte")).astype(np.int64)
    return torch.from_numpy(images[:, None]), torch.from_numpy(labels)


def forward(parameters, images, average):
    pool = torch.nn.functional.avg_pool2d if average else torch.nn.functional.max_pool2d
    x = images
    for layer in ("conv1", "conv2"):
        x = torch.nn.functional.conv2d(x, parameters[f"{layer}.weight"], parameters[f"{layer}.bias"])
        x = pool(torch.tanh(x), 2)
    x = x.flatten(1)
    x = torch.tanh(x @ parameters["fc1.weight"].T + parameters["fc1.bias"])
    return x @ parameters["fc2.weight"].T + parameters["fc2.bias"]


def train(start, folder, steps, batch, learning_rate, momentum, average):
    """Parameters after `steps` batches of `batch`, and the loss of each step."""
    images, labels = training_set(folder)
    parameters = {name: torch.from_numpy(array.astype(np.float64)).requires_grad_() for name, array in start.items()}
    optimizer = torch.optim.SGD(parameters.values(), lr=learning_rate, momentum=momentum)
    losses = []
    for step in range(steps):
        cut = slice(step * batch, (step + 1) * batch)
        loss = torch.nn.functional.cross_entropy(forward(parameters, images[cut], average), labels[cut])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return {name: tensor.detach().numpy() for name, tensor in parameters.items()}, losses
