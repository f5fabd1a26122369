"""What test_growth.py runs in the workers of a job: steps, and how much memory the process has after them."""
import gc

import numpy
import sluice


def resident():
    """Bytes of this process that are in memory and no other's."""
    gc.collect()
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file if ":" in line)
    return sum(int(fields[name].split()[0]) << 10 for name in ("Private_Clean", "Private_Dirty"))


def growth(step, warm, steps):
    """By how many bytes the process has grown in so many steps after the first ones."""
    for i in range(warm):
        step(i)
    before = resident()
    for i in range(warm, warm + steps):
        step(i)
    return resident() - before


def arrays(warm, steps):
    kv = sluice.create("dist_sync")
    kv.set_optimizer(sluice.SGD(0.001, momentum=0.9))
    kv.init(["a", "b"], [numpy.zeros(3000, numpy.float32), numpy.zeros((10, 7), numpy.float32)])
    kv.init_rows("rows", (1000, 8))
    ids = numpy.arange(0, 1000, 37)
    out = numpy.empty((10, 7), numpy.float32)

    def step(i):
        kv.push(["a", "b"], [numpy.full(3000, i % 7, numpy.float32), sluice.ones((10, 7))])
        values = kv.pull("a")
        kv.pull("b", out=out)
        kv.push_rows("rows", ids, numpy.ones((len(ids), 8), numpy.float32))
        kv.pull_rows("rows", ids)
        numpy.asarray(values + 1)
        kv.pushpull_async("a", numpy.ones(3000, numpy.float32)).wait()
        try:
            kv.push("a", numpy.zeros(3, numpy.float32))
        except ValueError:
            pass
    return growth(step, warm, steps)


def module(update, warm, steps):
    import sluice.torch as st
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.ReLU(), torch.nn.Linear(30, 1))
    st.init()
    optimizer = st.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=1e-3), model.named_parameters(), update=update)
    st.broadcast_parameters(model.state_dict(), root_rank=0)

    def step(_):
        optimizer.zero_grad()
        model(torch.ones(8, 20)).square().mean().backward()
        optimizer.step()
    return growth(step, warm, steps)
