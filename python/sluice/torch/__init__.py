"""Sluice for PyTorch: averages of gradients over the workers of a job, with the names that Horovod's users know.

    import sluice.torch as st
    st.init()
    optimizer = st.DistributedOptimizer(torch.optim.Adam(model.parameters(), 1e-3), model.named_parameters())
    st.broadcast_parameters(model.state_dict())
    sampler = st.DistributedSampler(dataset)
"""
from .comm_hook import comm_hook
from .embedding import Embedding, EmbeddingBag, EmbeddingBagCollection
from .local_sgd import DiLoCo, LocalSGD
from .optimizer import Average, DistributedOptimizer, Sum, join
from .parallel import DistributedDataParallel
from .process import barrier, init, rank, shutdown, size
from .publish import Follower, Publisher, follow, publish
from .sampler import DistributedSampler
from .sync import (allreduce, allreduce_, allreduce_async, allreduce_async_, broadcast, broadcast_, broadcast_object, broadcast_optimizer_state,
                   broadcast_parameters, poll, push_pull, synchronize)

__all__ = ["Average", "DiLoCo", "DistributedDataParallel", "DistributedOptimizer", "DistributedSampler", "Embedding", "EmbeddingBag",
           "EmbeddingBagCollection", "Follower", "LocalSGD", "Publisher", "Sum", "allreduce", "allreduce_", "allreduce_async", "allreduce_async_",
           "barrier", "broadcast", "broadcast_", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters", "comm_hook", "follow",
           "init", "join", "poll", "publish", "push_pull", "rank", "shutdown", "size", "synchronize"]
