"""
First steps with NumPy
======================

A store keeps named arrays. Workers push gradients to it and pull weights from it; in a job the arrays live on server
processes. This page fits a line by gradient descent, first in this process, then by two workers and a server.

Run it: ``python docs/tutorials/first_steps.py``
"""
import numpy as np
import sluice

# %%
# A store of this process
# -----------------------
# (The lines under ``if __name__ == "__main__"`` are those that the workers below, which import this file, leave out.)
#
# ``init`` gives a key its value, ``pull`` brings it. Without an optimizer, what is pushed replaces the value; the
# arrays of several devices, or of several workers, are summed first.

if __name__ == "__main__":
    kv = sluice.create("local")
    kv.init("weight", np.zeros(3, np.float32))
    kv.push("weight", np.array([1, 2, 3], np.float32))
    print("pulled:", np.asarray(kv.pull("weight")))

# %%
# With an optimizer the store updates its value by what is pushed. ``divisor`` turns the sum of gradients over a batch
# into their mean.

if __name__ == "__main__":
    kv.init("slope", np.zeros(1, np.float32))
    kv.set_optimizer(sluice.SGD(0.1))
    kv.push("slope", np.array([5], np.float32), divisor=5)
    print("one step:", np.asarray(kv.pull("slope")))

# %%
# The same in a job
# -----------------
# A worker's program only names another type of store. ``dist_sync``: a round closes when every worker has pushed, and
# all pull the same weights.


def samples(rank, workers, step):
    """This worker's share of a batch of 64: y = 3 x - 1 and a little noise."""
    random = np.random.default_rng(step)
    x = random.uniform(-1, 1, 64).astype(np.float32)
    y = 3 * x - 1 + random.normal(0, 0.01, 64).astype(np.float32)
    return x[rank::workers], y[rank::workers]


def fit(store_type):
    kv = sluice.create(store_type)
    line = np.zeros(2, np.float32)  # slope and intercept
    kv.init("line", line)
    kv.set_optimizer(sluice.SGD(0.2, momentum=0.5))
    for step in range(60):
        kv.pull("line", out=line)
        x, y = samples(kv.rank, kv.num_workers, step)
        wrong = line[0] * x + line[1] - y
        kv.push("line", np.array([(wrong * x).sum(), wrong.sum()], np.float32), divisor=64)
    return np.asarray(kv.pull("line")).tolist()


# %%
# ``sluice.run`` starts a scheduler, servers and workers on this machine and returns what the workers return. On several
# machines, and from a shell, it is ``sluice launch -n 2 -s 1 -H hosts python fit.py`` (``docs/launching.md``).

if __name__ == "__main__":
    alone = fit("local")
    together = sluice.run(fit, ("dist_sync",), workers=2, servers=1, timeout=120)
    print("alone:   ", alone)
    print("workers: ", *together)
    assert np.allclose(alone, [3, -1], atol=0.02)
    assert np.allclose(together, alone, atol=1e-4)
