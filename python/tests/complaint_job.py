"""What the workers of test_complaints.py do."""
import os
import signal
import time

import numpy
import sluice


def silent():
    """Worker 1 never pushes."""
    kv = sluice.create("dist_sync")
    kv.init("layer7.weight", numpy.zeros(3, numpy.float32))
    if kv.rank == 1:
        time.sleep(600)
    kv.pushpull("layer7.weight", numpy.ones(3, numpy.float32))


def named(kind):
    """Models that differ between the workers."""
    import sluice.torch as st
    import torch
    st.init()
    first = st.rank() == 0
    model = torch.nn.Sequential(torch.nn.Linear(3, 2)) if first else torch.nn.Sequential(torch.nn.Identity(), torch.nn.Linear(3, 2))
    if kind == "shape":
        model = torch.nn.Linear(3, 2 if first else 3)
    optimizer = st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters(),
                                        update="server" if kind == "server" else "worker")
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()


def empty():
    """Pushes of no rows, by one worker and by all."""
    kv = sluice.create("dist_sync")
    kv.set_optimizer(sluice.SGD(1.0))
    kv.init_rows("table", (100, 2))
    none, seven = numpy.zeros(0, numpy.int64), numpy.array([7])
    kv.push_rows("table", seven if kv.rank == 0 else none, numpy.ones((1 if kv.rank == 0 else 0, 2), numpy.float32))
    kv.push_rows("table", none, numpy.zeros((0, 2), numpy.float32))
    return kv.pull_rows("table", numpy.array([7, 8])).asnumpy().tolist()


def large():
    """Steps of a table of 10^8 rows; returns by how many bytes the worker has grown."""
    import sluice.torch as st
    import torch
    torch.set_num_threads(1)
    from growth_job import resident
    st.init()
    table = st.EmbeddingBag(100_000_000, 16, name="ids")
    torch.manual_seed(st.rank())
    before = resident()
    for _ in range(3):
        table(torch.randint(0, 100_000_000, (512, 4))).square().sum().backward()
    return resident() - before


def killed():
    """Worker 1 is killed in the middle of a round."""
    kv = sluice.create("dist_async")
    kv.init("w", numpy.zeros(3, numpy.float32))
    kv.barrier()
    if kv.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)
