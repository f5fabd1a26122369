"""The stock networks (include/sluice/models.h) and their training once more, in PyTorch and float64: what every run is
measured against. Parameters are ours, by our names.
"""
import gzip
import pathlib

import numpy as np
import torch
import torch.nn.functional as F


def read_idx(folder, stem):
    path = next((path for path in (pathlib.Path(folder) / stem, pathlib.Path(folder) / f"{stem}.gz") if path.exists()), None)
    if path is None:
        raise FileNotFoundError(f"no {stem}[.gz] in {folder}")
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    ndim = data[3]
    shape = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(ndim)]
    return np.frombuffer(data[4 + 4 * ndim :], dtype=np.uint8).reshape(shape)


def mnist(folder, count):
    """The first `count` images [count, 1, 28, 28] and labels of the training set, as bytes."""
    return read_idx(folder, "train-images-idx3-ubyte")[:count, None], read_idx(folder, "train-labels-idx1-ubyte")[:count]


def convolution(weights, name, x, **window):
    return F.conv2d(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"), **window)


def dense(weights, name, x):
    return F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def batch_norm(weights, name, x):
    mean, variance, gamma, beta = (weights[f"{name}.{part}"] for part in ("running_mean", "running_var", "gamma", "beta"))
    return F.batch_norm(x, mean, variance, gamma, beta, training=True, momentum=0.1, eps=1e-5)


def mlp(weights, x):
    x = torch.relu(dense(weights, "fc1", x.flatten(1)))
    return dense(weights, "fc3", torch.relu(dense(weights, "fc2", x)))


def lenet(weights, x, pool=F.max_pool2d):
    for layer in ("conv1", "conv2"):
        x = pool(torch.tanh(convolution(weights, layer, x)), 2)
    return dense(weights, "fc2", torch.tanh(dense(weights, "fc1", x.flatten(1))))


def lenet_avg(weights, x):
    return lenet(weights, x, F.avg_pool2d)


def gluon_lenet(weights, x):
    for layer in ("conv1", "conv2"):
        x = F.max_pool2d(torch.relu(convolution(weights, layer, x)), 2)
    x = x.flatten(1)
    for layer in ("fc1", "fc2"):
        x = torch.relu(dense(weights, layer, x))
    return dense(weights, "fc3", x)


def residual_block(weights, name, x, stride):
    y = convolution(weights, f"{name}.body.conv1", x, stride=stride, padding=1)
    y = torch.relu(batch_norm(weights, f"{name}.body.bn1", y))
    y = batch_norm(weights, f"{name}.body.bn2", convolution(weights, f"{name}.body.conv2", y, padding=1))
    if f"{name}.shortcut.conv.weight" in weights:
        x = convolution(weights, f"{name}.shortcut.conv", x, stride=stride)
        x = batch_norm(weights, f"{name}.shortcut.bn", x)
    return torch.relu(x + y)


def resnet20(weights, x):
    x = torch.relu(batch_norm(weights, "bn", convolution(weights, "conv", x, padding=1)))
    for stage in (1, 2, 3):
        for block in (1, 2, 3):
            x = residual_block(weights, f"stage{stage}.block{block}", x, stride=2 if stage > 1 and block == 1 else 1)
    return dense(weights, "fc", x.mean((2, 3)))


def text_mean(weights, ids):
    """Padding, id 0, is no word of the mean."""
    return dense(weights, "fc", F.embedding_bag(ids.long(), weights["embedding.weight"], mode="mean", padding_idx=0))


def text_cnn(weights, ids):
    """Without its dropout; padding, id 0, is zeros."""
    x = (F.embedding(ids.long(), weights["embedding.weight"]) * (ids != 0)[..., None])[:, None]
    found = [torch.relu(convolution(weights, f"windows.window{words}.conv", x, padding=(words // 2, 0))).amax((2, 3))
             for words in (3, 4, 5)]
    return dense(weights, "fc", torch.cat(found, 1))


def text_recurrent(weights, ids, module):
    """Padding, id 0, is packed away; our gates lie as PyTorch's do."""
    ids = ids.long()
    x = F.embedding(ids, weights["reader.embedding.weight"])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, (ids != 0).sum(1), batch_first=True, enforce_sorted=False)
    names = [f"reader.recurrent.l0_{part}" for part in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias")]
    module = module(x.shape[2], weights[names[1]].shape[1], batch_first=True).double()
    module._flat_weights = [weights[name] for name in names]  # what forward takes them from
    _, last = module(packed)
    return dense(weights, "fc", (last[0] if isinstance(last, tuple) else last)[0])


def text_lstm(weights, ids):
    return text_recurrent(weights, ids, torch.nn.LSTM)


def text_gru(weights, ids):
    return text_recurrent(weights, ids, torch.nn.GRU)


NETWORKS = {function.__name__: function for function in (
    mlp, lenet, lenet_avg, gluon_lenet, resnet20, text_mean, text_cnn, text_lstm, text_gru)}


class Training:
    """SGD with momentum on the mean softmax cross-entropy, from the arrays `start`; weight decay is of weights alone."""

    def __init__(self, network, start, learning_rate, momentum, weight_decay=0.0):
        self.network = NETWORKS[network]
        self.weights = {name: torch.from_numpy(array.astype(np.float64)) for name, array in start.items()}
        self.learnt = {name: tensor.requires_grad_() for name, tensor in self.weights.items() if "running_" not in name}
        decayed = [tensor for name, tensor in self.learnt.items() if name.endswith("weight")]
        others = [tensor for name, tensor in self.learnt.items() if not name.endswith("weight")]
        self.optimizer = torch.optim.SGD([{"params": decayed, "weight_decay": weight_decay}, {"params": others}],
                                         lr=learning_rate, momentum=momentum)

    def step(self, x, labels):
        """The losses of the samples; gradients() are this step's afterwards."""
        losses = F.cross_entropy(self.network(self.weights, x), labels, reduction="none")
        self.optimizer.zero_grad()
        losses.mean().backward()
        self.optimizer.step()
        return losses.detach().numpy()

    def gradients(self):
        """Returns the gradients of the mean over the batch."""
        return {name: tensor.grad.numpy() for name, tensor in self.learnt.items()}

    def parameters(self):
        return {name: tensor.detach().numpy() for name, tensor in self.weights.items()}
