#!/usr/bin/env python3
"""How a parameter server scales: docs/design/scale.md, whose tables this prints. No figure is fitted; overlap is step_model.py's, fits are
scale_fit.py's."""
import dataclasses
import functools
import heapq
import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out
import bench_run
import step_model

MESSAGES = 3  # a worker and a server exchange so many in a round: tests/sim/scale_test.cc
BATCH = 256 << 10  # bytes that share a message, where the link is slow
WHOLE, LEAST_SLICE, MOST_SLICE = 400e3, 32 << 10, 4 << 20  # bytes: src/kvstore/plan/placement.h


@dataclasses.dataclass
class Job:
    workers: int
    servers: int
    rate: float                  # bytes a second of payload, of each link, each way
    colocated: bool = False
    latency: float = 50e-6       # seconds, one way
    message: float = 12e-6       # core seconds of one end of a message
    sum_rate: float = 14e9       # bytes a second that a core of a server reads and writes to close rounds
    cores: int = 1               # cores of a server
    states: int = 4              # passes over the weight when a round closes: SGD with momentum
    push_share: float = 1.0      # compression leaves this share of a push's bytes
    pull_share: float = 1.0


@functools.cache
def placed(servers, sizes):
    """How many slices each key has, declared in this order: as few as are at most an eighth of a server's share of all keys so far, on
    the servers with the fewest bytes. And the most bytes of a server."""
    counts, total, loads = [], 0, [0] * servers
    for size in sizes:
        total += size
        most = min(max(total / servers / 8, LEAST_SLICE), MOST_SLICE)
        counts.append(min(servers, math.ceil(size / most)) if size >= WHOLE else 1)
        for load in [heapq.heappop(loads) for _ in range(counts[-1])]:
            heapq.heappush(loads, load + size / counts[-1])
    return counts, max(loads)


def most_bytes(job, sizes):
    """Returns the bytes of the fullest server."""
    return placed(job.servers, tuple(sizes))[1]


def network_seconds(job, sizes):
    """Returns the time of the busiest link, whose directions work at once."""
    size, most = sum(sizes), most_bytes(job, sizes)
    if job.colocated:  # the fullest server's host: its own pushes one way, all others' the other way, or their values
        shares = (job.push_share, job.pull_share)
        return ((size - most) * min(shares) + (job.workers - 1) * most * max(shares)) / job.rate
    return max(size, job.workers * most) * max(job.push_share, job.pull_share) / job.rate


def sum_seconds(job, sizes):
    return (job.workers + job.states) * most_bytes(job, sizes) / (job.sum_rate * job.cores)


def messages(servers, size):
    """In which so many bytes leave for all servers at once."""
    return servers * math.ceil(size / servers / BATCH)


def message_seconds(job, sizes, apart):
    """Returns the time of the busiest loop's core. Keys that leave when each is written go apart; others share messages."""
    count = sum(map(messages, placed(job.servers, tuple(sizes))[0], sizes)) if apart else messages(job.servers, sum(sizes))
    return max(1, job.workers / job.servers / job.cores) * MESSAGES * count * job.message


def busiest_seconds(job, sizes, apart):
    """Parts pass through link, sum and loops in turns: the slowest of them counts."""
    return max(network_seconds(job, sizes), sum_seconds(job, sizes), message_seconds(job, sizes, apart))


def fill_seconds(job, sizes):
    """The last part's values follow its last push."""
    return 0 if job.colocated else job.workers * step_model.part_of(max(sizes) / job.servers) / job.rate


def round_seconds(job, sizes):
    """Push, close and pull of keys of such bytes, all there at once."""
    return busiest_seconds(job, sizes, False) + fill_seconds(job, sizes) + 2 * job.latency


@dataclasses.dataclass
class Network:
    """Layers first to last: bytes of parameters and multiplications of an image."""
    layers: list
    seconds: float  # one worker's time for a step's forward and backward

    @property
    def size(self):
        return sum(size for size, _ in self.layers)

    def profile(self, latency_ms):
        """Backward takes twice what forward does, each layer by its multiplications."""
        total, ms = sum(work for _, work in self.layers), self.seconds * 1e3
        forward = [sum(work for _, work in self.layers[:i]) / total * ms / 3 for i in range(len(self.layers))]
        before_end = [each * 2 for each in forward]
        return step_model.Profile([size for size, _ in self.layers], forward, before_end, ms, latency_ms)


def efficiency(network, job, overlap):
    """Returns how fast a worker is beside one alone. With overlap its link is as slow as a round's busiest resource makes it."""
    sizes, alone = [size for size, _ in network.layers], network.seconds
    if not overlap:
        return alone / (alone + round_seconds(job, sizes))
    rate = network.size / busiest_seconds(job, sizes, True) / 1e3
    part = max(step_model.PART, network.size // 128)
    return alone * 1e3 / step_model.step_ms(network.profile(2e3 * job.latency), rate, True, part_bytes=part, steps=8)


def conv(kernel, inputs, outputs, side):
    weights = kernel * kernel * inputs * outputs
    return 4 * weights, weights * side * side


def dense(inputs, outputs):
    return 4 * inputs * outputs, inputs * outputs


def resnet(blocks):
    layers, inputs = [conv(7, 3, 64, 112)], 64
    for width, count, side in zip((64, 128, 256, 512), blocks, (56, 28, 14, 7)):
        for block in range(count):
            layers += [conv(1, inputs, width, side), conv(3, width, width, side), conv(1, width, 4 * width, side)]
            if block == 0:
                layers.append(conv(1, inputs, 4 * width, side))
            inputs = 4 * width
    return layers + [dense(2048, 1000)]


def vgg19():
    layers, inputs = [], 3
    for width, count, side in ((64, 2, 224), (128, 2, 112), (256, 4, 56), (512, 4, 28), (512, 4, 14)):
        for _ in range(count):
            layers.append(conv(3, inputs, width, side))
            inputs = width
    return layers + [dense(25088, 4096), dense(4096, 4096), dense(4096, 1000)]


LENET = [conv(5, 1, 20, 24), conv(5, 20, 50, 8), dense(800, 500), dense(500, 10)]
RESNET_50, RESNET_152, VGG_19 = resnet((3, 4, 6, 3)), resnet((3, 8, 36, 3)), vgg19()


def gain_of_priorities(layers):
    """The most, over all rates, by which priorities and small parts beat whole layers in the order of backward; and the rate's
    communication beside computation."""
    network, best = Network(layers, 1.0), (0.0, 0.0)
    for percent in range(20, 400, 10):
        rate = network.size / (percent / 100) / 1e3
        whole, parts = (step_model.step_ms(network.profile(0), rate, True, steps=8, part_bytes=part, by_urgency=urgent)
                        for part, urgent in ((network.size, False), (network.size // 128, True)))
        best = max(best, (whole / parts - 1, percent / 100))
    return best


def print_efficiency():
    gbit = 125e6 * 1448 / 1538
    cases = (("LeNet, 64 images, one core", Network(LENET, 0.0125), gbit), ("ResNet-50", Network(RESNET_50, 0.2), 10 * gbit),
             ("ResNet-152, 16 K80", Network(RESNET_152, 512 / 298.03), 20 * gbit))
    rows = []
    for name, network, rate in cases:
        for shape, servers, colocated in (("colocated, S = W", lambda w: w, True), ("S = W", lambda w: w, False),
                                          ("S = W / 10", lambda w: max(1, w // 10), False)):
            cells = []
            for workers in (2, 10, 100, 1000):
                job = Job(workers, servers(workers), rate, colocated)
                cells.append(f"{efficiency(network, job, True):.2f} / {efficiency(network, job, False):.2f}")
            rows.append((f"{name}, {network.size / 1e6:.1f} MB, {rate / gbit:.0f} Gbit/s", shape, *cells))
    print()
    bench_run.table(("network", "servers", *(f"W = {w}" for w in (2, 10, 100, 1000))), rows)


def print_measured():
    """LeNet on 2 workers and 2 servers with 1 Gbit/s: docs/benchmarks/training.md, where a step alone ends its backward after 16.1 ms."""
    job, network = Job(2, 2, 125e6 * 1448 / 1538), Network(LENET, 16.1e-3)
    rows = [(name, f"{1e3 * network.seconds / efficiency(network, job, overlap):.1f}", measured)
            for name, overlap, measured in (("with overlap and priorities", True, "26.1"), ("without", False, "33.2"))]
    print()
    bench_run.table(("gradients leave", "model, ms", "measured, ms"), rows)


def print_mxnet():
    """README of MXNet's example/image-classification: images a second with 16 and with 256 GPUs, 16 in each machine of 20 Gbit/s."""
    rows = []
    for name, size, batch, of_16, of_256 in (("ResNet-152", 240e6, 32, 298.03, 4630.42), ("Inception-v3", 95e6, 32, 447.61, 6660.98),
                                            ("AlexNet", 203e6, 512, 4244.18, 61938.36)):
        step = 16 * batch / of_16
        exchange = round_seconds(Job(16, 16, 20 * 125e6 * 1448 / 1538, True), [size])
        rows.append((name, f"{step:.2f}", f"{exchange:.3f}", f"{step / (step + exchange):.3f}", f"{of_256 / of_16 / 16:.3f}"))
    print()
    bench_run.table(("network", "step of a machine, s", "round, s", "none hidden", "published"), rows)


def main():
    print_efficiency()
    print_measured()
    print_mxnet()
    gains = ((name, *gain_of_priorities(layers)) for name, layers in (("ResNet-50", RESNET_50), ("VGG-19", VGG_19)))
    print()
    bench_run.table(("network", "most gain", "where communication / computation is"), [(n, f"{g:.0%}", f"{at:.1f}") for n, g, at in gains])


if __name__ == "__main__":
    bench_run.started(main)
