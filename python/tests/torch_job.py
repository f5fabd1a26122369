"""What the workers of test_torch.py do, and the same in one process without Sluice."""
import numpy
import torch
from torch import nn

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=1e-3),
    "adam": lambda p: torch.optim.Adam(p, 1e-2),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2),
    "adagrad": lambda p: torch.optim.Adagrad(p, 1e-2),
}


class Partial(nn.Module):
    """A branch that only samples of even steps reach, and one that no step does."""

    def __init__(self):
        super().__init__()
        self.first, self.even, self.never = nn.Linear(6, 5), nn.Linear(5, 5), nn.Linear(5, 5)
        self.step = 0

    def forward(self, x):
        x = torch.tanh(self.first(x))
        return self.even(x) if self.step % 2 == 0 else x


def model_of(kind):
    torch.manual_seed(3)
    if kind == "mlp":
        return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 5))
    if kind == "lenet":
        return nn.Sequential(nn.Unflatten(1, (1, 12, 12)), nn.Conv2d(1, 4, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(100, 5))
    return Partial()


def data_of(kind, step, samples=16):
    rng = numpy.random.default_rng(100 + step)
    width = 144 if kind == "lenet" else 6
    return torch.from_numpy(rng.standard_normal((samples, width)).astype(numpy.float32)), torch.from_numpy(rng.integers(0, 5, samples))


def train(kind, optimizer, steps, rank, workers, passes=1, clip=None, make=None, scaled=False):
    """Trains on this worker's share of each batch; returns the parameters as NumPy arrays."""
    model = model_of(kind)
    trained = make(model, OPTIMIZERS[optimizer](model.parameters()))
    loss_of = nn.CrossEntropyLoss()
    for step in range(steps):
        model.step = step
        trained.zero_grad()
        x, y = data_of(kind, step)
        x, y = x[rank::workers], y[rank::workers]
        for part in range(passes):
            loss = loss_of(model(x[part::passes]), y[part::passes]) / passes
            (loss * 1024 if scaled else loss).backward()
        if scaled:
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad /= 1024
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        trained.step()
    return [p.detach().numpy().copy() for p in model.parameters()], [p.grad is None for p in model.parameters()]


def distributed(kind, optimizer, steps, options):
    import sluice.torch as st
    st.init()

    def make(model, plain):
        if st.rank() != 0:  # rank 0's parameters win
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(1)
        st.broadcast_parameters(model.state_dict())
        return st.DistributedOptimizer(plain, model.named_parameters(), backward_passes_per_step=options.get("passes", 1))
    return train(kind, optimizer, steps, st.rank(), st.size(), make=make, **options)


def wrapped():
    """DistributedDataParallel with no_sync: two backward of a step, the first by itself."""
    import sluice.torch as st
    st.init()
    torch.manual_seed(10 + st.rank())
    model = st.DistributedDataParallel(nn.Linear(6, 5))
    x, y = data_of("mlp", 0)
    x, y = x[st.rank()::st.size()], y[st.rank()::st.size()]
    with model.no_sync():
        nn.functional.cross_entropy(model(x[::2]), y[::2]).backward()
    nn.functional.cross_entropy(model(x[1::2]), y[1::2]).backward()
    return model.module.weight.detach().numpy().copy(), model.module.weight.grad.numpy().copy()


def values():
    import sluice.torch as st
    st.init()
    rank = st.rank()
    found = {
        "object": st.broadcast_object({"a": [1, rank], "b": "text"} if rank == 0 else None),
        "mean": st.allreduce(torch.full((3,), float(rank))).tolist(),
        "sum": st.allreduce(torch.full((3,), float(rank)), average=False).tolist(),
        "named": [st.allreduce(torch.full((2,), float(rank + i)), name="loss").tolist() for i in range(3)],
        "integers": st.broadcast(torch.tensor([rank, 7])).tolist(),
        "scalar": float(st.broadcast(torch.tensor(2.5 + rank))),
        "shares": list(st.DistributedSampler(range(10), seed=5)),
    }
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), 0.1 * (rank + 1))
    if rank == 0:
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    st.broadcast_optimizer_state(optimizer)
    found["rate"] = optimizer.param_groups[0]["lr"]
    found["step"] = float(optimizer.state_dict()["state"][0]["step"])
    st.barrier()
    return found


def fails_in_backward():
    """A worker dies; the others' backward() raises."""
    import sluice.torch as st
    st.init()
    model = nn.Linear(2, 2)
    optimizer = st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters())
    if st.rank() == 1:
        raise ValueError("worker 1 has no data")
    while True:
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
