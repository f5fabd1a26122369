"""What the workers of test_torch_embedding.py do, and the same in one process on dense tables."""
import numpy
import torch
from torch import nn

ROWS, WIDTH, STEPS, SAMPLES, BAG = 40, 3, 40, 8, 4
RATE, EPSILON = 0.1, 1e-6


def batch(step):
    """Ids of a batch, few of them distinct, and what its bags are to become."""
    rng = numpy.random.default_rng(step)
    return torch.from_numpy(rng.integers(0, ROWS, (SAMPLES, BAG))), torch.from_numpy(rng.standard_normal((SAMPLES, 1)).astype(numpy.float32))


def head():
    torch.manual_seed(4)
    return nn.Linear(WIDTH, 1)


def loss_of(bags, linear, y):
    return ((linear(bags) - y) ** 2).mean()


def dense(kind, start):
    """The table as a dense float64 parameter, with AdaGrad of the rows that a step touches."""
    table = torch.from_numpy(start.astype(numpy.float64)).requires_grad_()
    history = torch.zeros_like(table)
    linear = head().double()
    optimizer = torch.optim.SGD(linear.parameters(), 0.05)
    for step in range(STEPS):
        ids, y = batch(step)
        bags = nn.functional.embedding(ids, table).sum(1) if kind == "embedding" else nn.functional.embedding_bag(ids, table, mode=kind)
        optimizer.zero_grad()
        table.grad = None
        loss_of(bags, linear, y.double()).backward()
        optimizer.step()
        with torch.no_grad():
            history += table.grad ** 2
            table -= RATE * table.grad / (history.sqrt() + EPSILON)
    return table.detach().numpy(), [p.detach().numpy() for p in linear.parameters()]


def on_servers(kind, store):
    """The same with this worker's share of each batch; returns the first rows, the last rows and the head."""
    import sluice
    import sluice.torch as st
    st.init()
    settings = {"optimizer": sluice.AdaGrad(RATE, epsilon=EPSILON), "init": sluice.RowInit.normal(0, 0.1, seed=3), "store": store}
    table = st.Embedding(ROWS, WIDTH, "table", **settings) if kind == "embedding" else st.EmbeddingBag(ROWS, WIDTH, "table", mode=kind, **settings)
    everything = torch.arange(ROWS)
    start = table.pull(everything).numpy()
    linear = head()
    optimizer = st.DistributedOptimizer(torch.optim.SGD(linear.parameters(), 0.05), linear.named_parameters())
    for step in range(STEPS):
        ids, y = batch(step)
        ids, y = ids[st.rank()::st.size()], y[st.rank()::st.size()]
        bags = table(ids).sum(1) if kind == "embedding" else table(ids)
        optimizer.zero_grad()
        loss_of(bags, linear, y).backward()
        optimizer.step()
    st.barrier()
    return start, table.pull(everything).numpy(), [p.detach().numpy() for p in linear.parameters()]


def uneven():
    """A table of which a worker's batches have no ids, or of which only worker 0's backward knows; then padding and offsets."""
    import sluice
    import sluice.torch as st
    st.init()
    settings = {"optimizer": sluice.SGD(1.0), "init": sluice.RowInit.constant(1.0)}
    first = st.EmbeddingBag(10, 2, "first", mode="sum", padding_idx=0, **settings)
    second = st.Embedding(10 ** 8, 2, "second", **settings)
    ids = torch.tensor([3, 0, 3]) if st.rank() == 0 else torch.tensor([], dtype=torch.int64)
    bags = first(ids, torch.tensor([0, 2]) if st.rank() == 0 else torch.tensor([0, 0]))
    loss = bags.sum()
    if st.rank() == 0:
        loss = loss + second(torch.tensor([[7, 99_999_999]])).sum()
    loss.backward()
    st.barrier()
    return bags.detach().tolist(), first.pull(torch.tensor([0, 3])).tolist(), second.pull(torch.tensor([7, 8])).tolist(), second.known_ids().tolist()


def in_two_passes():
    """Two backward of a step, each with other rows; prefetched rows."""
    import sluice
    import sluice.torch as st
    st.init()
    table = st.Embedding(10, 1, "table", optimizer=sluice.SGD(1.0), init=sluice.RowInit.constant(0.0), backward_passes_per_step=2)
    for ids in ([1, 2], [2, 3]):
        table.prefetch(torch.tensor(ids))
        table(torch.tensor(ids[::-1])).sum().backward()
    kept = table(torch.tensor([7])).sum()
    kept.backward(retain_graph=True)
    kept.backward()
    table.prefetch(torch.tensor([1]))
    refused = ""
    try:
        table(torch.tensor([5]))
    except ValueError as error:
        refused = str(error)
    return table.pull(torch.tensor([0, 1, 2, 3, 7])).reshape(-1).tolist(), refused


def asynchronous():
    """Each worker's push is a step of its own, whole."""
    import sluice
    import sluice.torch as st
    st.init()
    table = st.Embedding(10, 1, "table", padding_idx=-1, optimizer=sluice.SGD(1.0), init=sluice.RowInit.constant(0.0), store="dist_async")
    for _ in range(3):
        table(torch.tensor([st.rank(), 5, 9])).sum().backward()
    table._store.wait_all()
    st.barrier()
    return table.pull(torch.tensor([0, 1, 5, 9])).reshape(-1).tolist()


def features():
    import sluice
    import sluice.torch as st
    st.init()
    tables = st.EmbeddingBagCollection({"user": 5, "item": 100}, 2, "features", optimizer=sluice.SGD(1.0), init=sluice.RowInit.constant(1.0))

    class Jagged:
        def keys(self):
            return ["user", "item"]

        def values(self):
            return torch.tensor([4, 1, 99, 99, 3])

        def offsets(self):
            return torch.tensor([0, 1, 2, 4, 5])
    bags = tables(Jagged())
    (bags["user"].sum() + 2 * bags["item"].sum()).backward()
    st.barrier()
    named = tables({"user": (torch.tensor([4, 0]), torch.tensor([0])), "item": (torch.tensor([99]), torch.tensor([0]))})
    return {key: value.tolist() for key, value in bags.items()}, {key: value.tolist() for key, value in named.items()}
