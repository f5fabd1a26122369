"""Sluice for PyTorch: averages of gradients over the workers of a job, with the names that Horovod's users know.

    import sluice.torch as st
    st.init()
    optimizer = st.DistributedOptimizer(torch.optim.Adam(model.parameters(), 1e-3), model.named_parameters())
    st.broadcast_parameters(model.state_dict())
    sampler = st.DistributedSampler(dataset)
"""
from .optimizer import Average, DistributedOptimizer, Sum
from .parallel import DistributedDataParallel
from .process import barrier, init, rank, shutdown, size
from .sampler import DistributedSampler
from .sync import allreduce, allreduce_, broadcast, broadcast_, broadcast_object, broadcast_optimizer_state, broadcast_parameters

__all__ = [name for name in dir() if not name.startswith("_")]
