"""What the workers of test_torch_local_sgd.py do, and the same simulated in one process in float64."""
import numpy
import torch
from torch import nn

INNER = 0.1  # the rate of the inner SGD, whose momentum is 0.9
EVERY = 6


def model_of():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def batch(step, rank):
    rng = numpy.random.default_rng(1000 * rank + step)
    return torch.from_numpy(rng.standard_normal((8, 4)).astype(numpy.float32)), torch.from_numpy(rng.integers(0, 3, 8))


def inner_step(model, optimizer, step, rank):
    x, y = batch(step, rank)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x.to(next(model.parameters()).dtype)), y).backward()
    optimizer.step()


def parameters_of(model):
    return [p.detach().double().numpy().copy() for p in model.parameters()]


def on_servers(kind, steps, options):
    """Trains with the options of LocalSGD or DiLoCo; returns the parameters after each exchange's end."""
    import sluice
    import sluice.torch as st
    st.init()
    model = model_of()
    if st.rank() != 0:  # rank 0's parameters win
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(1)
    made = {"outer": sluice.NAG(0.7, momentum=0.9), **options} if kind == "DiLoCo" and "store" not in options else dict(options)
    local = getattr(st, kind)(model, EVERY, **made)
    optimizer = torch.optim.SGD(model.parameters(), INNER, momentum=0.9)
    for step in range(1, steps + 1):
        inner_step(model, optimizer, step, st.rank())
        local.step()
    local.finish()
    return parameters_of(model)


def in_turns(steps):
    """Async, in the order in which barriers let the workers push: at each exchange worker 0, then worker 1."""
    import sluice.torch as st
    st.init()
    model = model_of()
    local = st.DiLoCo(model, EVERY, store="dist_async")
    optimizer = torch.optim.SGD(model.parameters(), INNER, momentum=0.9)
    for step in range(1, steps + 1):
        inner_step(model, optimizer, step, st.rank())
        for turn in range(st.size()):
            if turn == st.rank():
                local.step()
            if step % EVERY == 0:
                st.barrier()
    return parameters_of(model)


class Outer:
    """The outer optimizer of one parameter: arXiv 2401.09135, algorithm 3, with N pushes a step; SGD's and NAG's are N = 1."""

    def __init__(self, start, rate, momentum, pushes=1):
        self.w, self.rate, self.momentum, self.pushes = start.copy(), rate, momentum, pushes
        self.m, self.gathered, self.count = numpy.zeros_like(start), numpy.zeros_like(start), 0

    def push(self, g):
        self.count += 1
        self.gathered += g
        if self.count % self.pushes == 0:
            self.m = self.momentum * self.m + self.gathered
            self.w -= self.rate * (self.momentum * self.m + g)
            self.gathered[:] = 0
        else:
            self.w -= self.rate * g
        return self.w.copy()


class Worker:
    def __init__(self, rank):
        self.rank, self.model = rank, model_of().double()
        self.optimizer = torch.optim.SGD(self.model.parameters(), INNER, momentum=0.9)
        self.parameters = list(self.model.parameters())
        self.common = parameters_of(self.model)

    def moved(self, i):
        return self.common[i] - self.parameters[i].detach().numpy()

    def take(self, i, common, alpha=0.0):
        self.common[i] = common.copy()
        with torch.no_grad():
            self.parameters[i].copy_(torch.from_numpy(common + alpha * (self.parameters[i].detach().numpy() - common)))


def simulated(workers, steps, rate, momentum, places, delay=0, alpha=0.0):
    """Synchronous exchanges. places: for each parameter, at which step of EVERY it is sent."""
    team = [Worker(rank) for rank in range(workers)]
    outers = [Outer(start, rate, momentum) for start in team[0].common]
    due = {}  # step: what arrives, (parameter, value)
    for step in range(1, steps + 1):
        for worker in team:
            inner_step(worker.model, worker.optimizer, step, worker.rank)
        for i, common in due.pop(step, []) if delay > 0 else []:
            for worker in team:
                worker.take(i, common, alpha)
        for i, place in enumerate(places):
            if step % EVERY == place % EVERY:
                common = outers[i].push(sum(worker.moved(i) for worker in team) / workers)
                due.setdefault(step + delay, []).append((i, common))
        for i, common in due.pop(step, []):
            for worker in team:
                worker.take(i, common, alpha)
    for arriving in due.values():
        for i, common in arriving:
            for worker in team:
                worker.take(i, common, alpha)
    return [parameters_of(worker.model) for worker in team]


def simulated_in_turns(workers, steps):
    team = [Worker(rank) for rank in range(workers)]
    outers = [Outer(start, 0.7, 0.9, pushes=workers) for start in team[0].common]
    for step in range(1, steps + 1):
        for worker in team:
            inner_step(worker.model, worker.optimizer, step, worker.rank)
        if step % EVERY == 0:
            for worker in team:
                for i, outer in enumerate(outers):
                    worker.take(i, outer.push(worker.moved(i) / workers))
    return [parameters_of(worker.model) for worker in team]


def publishes():
    """Worker 0 publishes what it trains; worker 1 reads until it has seen the third version, whole each time."""
    import sluice.torch as st
    st.init()
    model = nn.Sequential(nn.Linear(300, 300), nn.BatchNorm1d(300))
    if st.rank() == 0:
        shared = st.publish(model, "model")
        for version in range(1, 4):
            with torch.no_grad():
                for tensor in model.state_dict().values():
                    tensor.fill_(version)
            assert shared.publish() == version
            st.barrier()
        return 3
    shared = st.follow(model, "model")
    before = {key: value.clone() for key, value in model.state_dict().items()}
    seen = [shared.update()]
    if seen[0] == 0:
        assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    for _ in range(3):
        st.barrier()
        seen.append(shared.update())
        values = {float(value) for tensor in model.state_dict().values() for value in tensor.reshape(-1)}
        assert values == {float(seen[-1])}, values
    return seen
