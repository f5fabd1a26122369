"""
One trains, others read
=======================

Evaluation beside training, actors of reinforcement learning, programs that serve predictions: they want the newest
weights when it suits them, and must neither hold up the trainer nor join its exchanges. Worker 0 trains and publishes;
the others follow.

Run it: ``python docs/tutorials/readers.py``
"""
import sluice
import sluice.torch as st
import torch
from torch import nn

ROUNDS = 20

# %%
# The learner
# -----------
# ``publish()`` makes the values of now the newest version. Readers see all of a version or none of it.


def samples(seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 8, generator=generator)
    return x, x.sum(1, keepdim=True)


def learn(model):
    shared = st.publish(model, "model")
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for step in range(10 * ROUNDS):
        x, y = samples(step)
        optimizer.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()
        if step % 10 == 9:
            shared.publish()
    st.barrier()
    return []


# %%
# The readers
# -----------
# ``update()`` reads the newest version, which may be many after the last one that this reader has seen.


def read(model):
    shared = st.follow(model, "model")
    x, y = samples(10_000)
    seen = []
    while shared.version < ROUNDS:
        before = shared.version
        if shared.update() > before:
            with torch.no_grad():
                seen.append((shared.version, float(((model(x) - y) ** 2).mean())))
    st.barrier()
    return seen


def work():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = nn.Linear(8, 1)
    return learn(model) if st.rank() == 0 else read(model)


if __name__ == "__main__":
    _, *readers = sluice.run(work, workers=3, servers=1, timeout=120)
    for number, seen in enumerate(readers, 1):
        print(f"reader {number} saw {len(seen)} of {ROUNDS} versions; the last one's error is {seen[-1][1]:.2e}")
        assert seen[-1][0] == ROUNDS and seen[-1][1] < 1e-3
        assert [version for version, _ in seen] == sorted({version for version, _ in seen})
