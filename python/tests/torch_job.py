"""What the workers of test_torch.py do, and the same in one process without Sluice."""
import numpy
import torch
from torch import nn

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=1e-3),
    "adam": lambda p: torch.optim.Adam(p, 1e-2),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2),
    "adagrad": lambda p: torch.optim.Adagrad(p, 1e-2),
    "nesterov": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 1e-3, momentum=0.5, weight_decay=1e-3),
}


STEPS = 40


def several(calls):
    """Calls functions one after the other in one job."""
    return [fn(*args) for fn, args in calls]


class Fails(torch.autograd.Function):
    """Cuts backward off."""

    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        raise ArithmeticError("cut off")


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
    if kind == "attention":  # takes the parameters of a layer whose forward it does not call
        return nn.Sequential(nn.Unflatten(1, (1, 6)), nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True), nn.Flatten(), nn.Linear(6, 5))
    if kind == "weight_norm":  # has a hook of its own that reads parameters before forward
        return nn.Sequential(nn.utils.weight_norm(nn.Linear(6, 16)), nn.ReLU(), nn.utils.weight_norm(nn.Linear(16, 5)))
    return Partial()


def data_of(kind, step, samples=16):
    rng = numpy.random.default_rng(100 + step)
    width = 144 if kind == "lenet" else 6
    return torch.from_numpy(rng.standard_normal((samples, width)).astype(numpy.float32)), torch.from_numpy(rng.integers(0, 5, samples))


def train(kind, optimizer, steps, rank, workers, passes=1, clip=None, make=None, scaled=False, end=lambda: None):
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
    end()
    return [p.detach().numpy().copy() for p in model.parameters()], [p.grad is None for p in model.parameters()]


def distributed(kind, optimizer, options):
    import sluice.torch as st
    st.init()

    def make(model, plain):
        if st.rank() != 0:  # rank 0's parameters win
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(1)
        st.broadcast_parameters(model.state_dict())
        return st.DistributedOptimizer(plain, model.named_parameters(), backward_passes_per_step=options.get("passes", 1))
    return train(kind, optimizer, STEPS, st.rank(), st.size(), make=make, **options)


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


def on_servers(kind, optimizer, options):
    """update="server"; `overlap`: parameters are awaited in forward."""
    import sluice.torch as st
    st.init()
    made = []

    def make(model, plain):
        if st.rank() != 0:  # rank 0's parameters win
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(1)
        made.append(st.DistributedOptimizer(plain, model.named_parameters(), update="server", store=options.get("store", "dist_sync"),
                                            overlap_forward=model if options.get("overlap") else None,
                                            backward_passes_per_step=options.get("passes", 1)))
        st.broadcast_parameters(model.state_dict())  # which scripts do, and finds nothing to do
        return made[0]
    result = train(kind, optimizer, STEPS, st.rank(), st.size(), passes=options.get("passes", 1), make=make, end=lambda: made[0].synchronize())
    return result[0]


def written(on_servers):
    """Parameters that the program writes between steps: refused until set_parameters(); and a step of too few backward()."""
    import sluice.torch as st
    st.init()
    model = nn.Linear(1, 1, bias=False)
    plain = torch.optim.SGD(model.parameters(), 1.0)
    optimizer = st.DistributedOptimizer(plain, backward_passes_per_step=2, update="server" if on_servers else "worker")
    with torch.no_grad():
        model.weight.fill_(5.0 + st.rank())
    refused = ""
    if on_servers:
        try:
            optimizer.step()
        except RuntimeError as error:
            refused = str(error)
        optimizer.set_parameters()
    else:
        st.broadcast_parameters(model.state_dict())
    for passes in (2, 1, 2):  # the gradient of a pass is 1 on worker 0, and 3 on worker 1
        optimizer.zero_grad()
        for _ in range(passes):
            model(torch.full((1, 1), 1.0 + 2 * st.rank())).sum().backward()
        optimizer.step()
    return float(model.weight), refused


def in_groups():
    """Groups with rates and decays of their own, and a rate that falls; on servers and in one process."""
    import sluice.torch as st
    st.init()
    results = []
    for on_servers in (True, False):
        model = model_of("mlp")
        plain = torch.optim.Adam([{"params": [model[0].weight], "lr": 0.02, "weight_decay": 0.01}, {"params": [model[0].bias]},
                                  {"params": model[2].parameters(), "weight_decay": 0.02}], 0.005)
        schedule = torch.optim.lr_scheduler.StepLR(plain, 3, 0.5)
        optimizer = st.DistributedOptimizer(plain, model.named_parameters(), update="server") if on_servers else plain
        for step in range(10):
            optimizer.zero_grad()
            x, y = data_of("mlp", step)
            if on_servers:
                x, y = x[st.rank()::st.size()], y[st.rank()::st.size()]
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            schedule.step()
        results.append([p.detach().numpy().copy() for p in model.parameters()])
    return results


def uneven(batches):
    """Worker r has batches[r] batches, then it joins. Clips, so that join() needs a step of its own."""
    import sluice.torch as st
    st.init()
    model = model_of("mlp")
    optimizer = st.DistributedOptimizer(OPTIMIZERS["adam"](model.parameters()), model.named_parameters())

    def step():
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    for number in range(batches[st.rank()]):
        optimizer.zero_grad()
        x, y = data_of("mlp", number)
        nn.functional.cross_entropy(model(x[st.rank()::st.size()]), y[st.rank()::st.size()]).backward()
        step()
    optimizer.join(step)
    return [p.detach().numpy().copy() for p in model.parameters()]


def uneven_with_others():
    """Worker 1 has no data at all; worker 0 has two batches, two optimizers in turns, and a table."""
    import sluice
    import sluice.torch as st
    st.init()
    table = st.Embedding(10, 2, "table", optimizer=sluice.SGD(1.0), init=sluice.RowInit.constant(0.0))
    models = [nn.Linear(2, 1, bias=False) for _ in range(2)]
    for model in models:
        nn.init.zeros_(model.weight)
    optimizers = [st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 1.0)) for model in models]
    for batch in range(2 * (1 - st.rank())):
        for model, optimizer in zip(models, optimizers):
            optimizer.zero_grad()
            (model(torch.ones(1, 2)).sum() + table(torch.tensor([batch])).sum()).backward()
            optimizer.step()
    st.join(optimizers)
    return [model.weight.tolist() for model in models], table.pull(torch.arange(3)).tolist()


def branches():
    """A branch that worker 0 reaches in the first of two passes alone, and worker 1 never; then what a short step clips."""
    import sluice.torch as st
    st.init()
    trunk, branch = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    nn.init.zeros_(trunk.weight)
    nn.init.zeros_(branch.weight)
    parameters = [trunk.weight, branch.weight]
    optimizer = st.DistributedOptimizer(torch.optim.SGD(parameters, 1.0), backward_passes_per_step=2)
    optimizer.zero_grad(set_to_none=True)
    (trunk(torch.ones(1, 1)) + (branch(torch.ones(1, 1)) if st.rank() == 0 else 0)).sum().backward()
    trunk(torch.ones(1, 1)).sum().backward()
    optimizer.step()
    first = [float(parameter) for parameter in parameters]
    optimizer.zero_grad(set_to_none=True)
    trunk(torch.full((1, 1), 4.0 + 2 * st.rank())).sum().backward()
    optimizer.synchronize()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    with optimizer.skip_synchronize():
        optimizer.step()
    return first, [float(parameter) for parameter in parameters]


def joined_optimizers():
    """Two optimizers and a table in one backward; worker 1 has a batch fewer; then both go on."""
    import sluice
    import sluice.torch as st
    st.init()
    table = st.Embedding(4, 1, "joined table", optimizer=sluice.SGD(1.0), init=sluice.RowInit.constant(0.0))
    encoder, head = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    nn.init.ones_(encoder.weight)
    nn.init.ones_(head.weight)
    optimizers = [st.DistributedOptimizer(torch.optim.SGD(part.parameters(), 0.1)) for part in (encoder, head)]

    def step():
        for optimizer in optimizers:
            optimizer.zero_grad()
        (head(encoder(torch.ones(1, 1))).sum() + table(torch.tensor([0])).sum()).backward()
        for optimizer in optimizers:
            optimizer.step()
    for _ in range(2 - st.rank()):
        step()
    st.join(optimizers)
    step()
    return float(encoder.weight), float(head.weight), float(table.pull(torch.tensor([0])))


def uneven_in_one_process(batches):
    model = model_of("mlp")
    optimizer = OPTIMIZERS["adam"](model.parameters())
    for number in range(max(batches)):
        optimizer.zero_grad()
        x, y = data_of("mlp", number)
        active = [rank for rank, count in enumerate(batches) if number < count]
        for rank in active:
            (nn.functional.cross_entropy(model(x[rank::len(batches)]), y[rank::len(batches)]) / len(active)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    return [p.detach().numpy().copy() for p in model.parameters()]


def hooked(folder):
    """PyTorch's DistributedDataParallel, its buckets through servers and through gloo; returns both models' parameters."""
    import sluice.torch as st
    import torch.distributed
    st.init()
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=st.rank(), world_size=st.size())
    results = []
    for hook in (st.comm_hook(), None):
        model = nn.parallel.DistributedDataParallel(model_of("mlp"), bucket_cap_mb=1e-4)
        if hook is not None:
            model.register_comm_hook(None, hook)
        optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
        for step in range(10):
            x, y = data_of("mlp", step)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[st.rank()::st.size()]), y[st.rank()::st.size()]).backward()
            optimizer.step()
        results.append([p.detach().numpy().copy() for p in model.parameters()])
    torch.distributed.destroy_process_group()
    return results


def values():
    import sluice.torch as st
    st.init()
    rank = st.rank()
    found = {
        "object": st.broadcast_object({"a": [1, rank], "b": "text"} if rank == 0 else None),
        "arrays": [st.broadcast_object(numpy.arange(i) if rank == 0 else None).tolist() for i in range(4)],
        "many": [float(st.allreduce(torch.tensor(float(rank + i)))) for i in range(20)],
        "mean": st.allreduce(torch.full((3,), float(rank))).tolist(),
        "sum": st.allreduce(torch.full((3,), float(rank)), average=False).tolist(),
        "named": [st.allreduce(torch.full((2,), float(rank + i)), name="loss").tolist() for i in range(3)],
        "async": [st.synchronize(handle).tolist() for handle in [st.allreduce_async(torch.full((2,), float(rank + i)), op=st.Sum) for i in range(3)]],
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
