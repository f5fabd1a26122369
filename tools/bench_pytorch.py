#!/usr/bin/python3
"""Images per second of PyTorch on what train_bench measures: forward, backward and SGD step on random data.

Prints one JSON object per network, number of threads and memory layout, with the field names of train_bench.
Debian: python3-torch libopenblas0-openmp (the pthread OpenBLAS fights OpenMP for the cores). ATEN_CPU_CAPABILITY
defaults to the best this processor has; it is read when torch loads. Without torch it says so and exits 0.
"""
import argparse
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out
import bench_run

VOCABULARY, WORDS = 10_000, 64  # as train_bench's texts have
UNITS, STEPS = 200, 35  # as its lone recurrent layers have


def best_capability():
    with open("/proc/cpuinfo", encoding="ascii") as cpuinfo:
        flags = cpuinfo.read()
    return "avx512" if "avx512f" in flags else "avx2" if "avx2" in flags else "default"


def lenet(nn, pool, channels, activation, widths):
    (first, first_side), (second, second_side) = channels
    side = ((28 - first_side + 1) // 2 - second_side + 1) // 2
    layers = [nn.Conv2d(1, first, first_side), activation(), pool(2), nn.Conv2d(first, second, second_side), activation(),
              pool(2), nn.Flatten()]
    width = second * side * side
    for units in widths:
        layers += [nn.Linear(width, units), activation()]
        width = units
    return nn.Sequential(*layers, nn.Linear(width, 10))


def residual_block(torch, before, channels, stride):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(before, channels, 3, stride, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
                nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels))
            self.shortcut = nn.Identity() if before == channels and stride == 1 else nn.Sequential(
                nn.Conv2d(before, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

        def forward(self, x):
            return torch.relu_(self.body(x) + self.shortcut(x))

    return Block()


def resnet20(torch):
    nn = torch.nn
    layers = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
    before = 16
    for channels in (16, 32, 64):
        for block in range(3):
            layers.append(residual_block(torch, before, channels, 2 if channels > 16 and block == 0 else 1))
            before = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def text_network(torch, name):
    nn = torch.nn

    class Windows(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, 64)
            self.windows = nn.ModuleList(nn.Conv2d(64, 100, (1, words), padding=(0, words // 2)) for words in (3, 4, 5))
            self.drop, self.fc = nn.Dropout(0.5), nn.Linear(300, 10)

        def forward(self, ids):
            x = self.embedding(ids).transpose(1, 2).unsqueeze(2)  # one row of words, and it lies channels last
            return self.fc(self.drop(torch.cat([torch.relu(window(x).squeeze(2).max(2)[0]) for window in self.windows], 1)))

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, 64)
            self.recurrent = (nn.LSTM if name == "text_lstm" else nn.GRU)(64, 64, batch_first=True)
            self.fc = nn.Linear(64, 10)

        def forward(self, ids):
            return self.fc(self.recurrent(self.embedding(ids))[0][:, -1])

    return Windows() if name == "text_cnn" else Reader()


def one_layer(torch, name):
    nn = torch.nn
    kind = {"lstm_200": nn.LSTM, "gru_200": nn.GRU, "rnn_200": nn.RNN}[name]

    class OneLayer(nn.Module):
        def __init__(self):
            super().__init__()
            self.recurrent = kind(UNITS, UNITS, batch_first=True)
            self.fc = nn.Linear(UNITS, 10)

        def forward(self, x):
            return self.fc(self.recurrent(x)[0][:, -1])

    return OneLayer()


def is_text(name):
    return name in ("text_cnn", "text_lstm", "text_gru")


def is_one_layer(name):
    return name in ("lstm_200", "gru_200", "rnn_200")


def make_input(torch, name, batch_size):
    if is_text(name):
        return torch.randint(1, VOCABULARY, (batch_size, WORDS))  # no padding: nothing to pack
    if is_one_layer(name):
        return torch.rand(batch_size, STEPS, UNITS)
    return torch.rand(batch_size, *((3, 32, 32) if name == "resnet20" else (1, 28, 28)))


def make_network(torch, name):
    nn = torch.nn
    if is_text(name):
        return text_network(torch, name)
    if is_one_layer(name):
        return one_layer(torch, name)
    if name == "resnet20":
        return resnet20(torch)
    if name == "gluon_lenet":
        return lenet(nn, nn.MaxPool2d, ((6, 5), (16, 3)), nn.ReLU, (120, 84))
    if name not in ("lenet", "lenet_avg"):
        sys.exit(f"bench_pytorch.py: there is no network '{name}' here")
    return lenet(nn, nn.AvgPool2d if name == "lenet_avg" else nn.MaxPool2d, ((20, 5), (50, 5)), nn.Tanh, (500,))


def captured(torch, step):
    """Returns a function that replays the step as a CUDA graph; capture wants some steps on another stream before."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def measure(torch, name, batch_size, threads, channels_last, steps, repeats, device="cpu", graph=False):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net = make_network(torch, name).to(device)
    x = make_input(torch, name, batch_size).to(device)
    if channels_last:
        net, x = net.to(memory_format=torch.channels_last), x if is_text(name) else x.contiguous(memory_format=torch.channels_last)
    y = torch.randint(0, 10, (batch_size,)).to(device)
    loss = torch.nn.CrossEntropyLoss()
    how = {"foreach": True} if device == "cpu" else {"fused": True}
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, **how)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss(net(x), y).backward()
        optimizer.step()

    replayed = captured(torch, step) if graph else step

    def run(count):
        for _ in range(count):
            replayed()
        if device != "cpu":
            torch.cuda.synchronize()

    run(max(3, steps // 5))
    rates = []
    for _ in range(repeats):
        start = time.perf_counter()
        run(steps)
        rates.append(batch_size * steps / (time.perf_counter() - start))
    parameters = sum(parameter.numel() for parameter in net.parameters())
    return {"network": name, "parameters": parameters, "batch_size": batch_size, "threads": threads, "channels_last": channels_last,
            **({} if device == "cpu" else {"device": torch.cuda.get_device_name(), "graph": graph, "tf32": torch.backends.cudnn.allow_tf32}),
            "images_per_sec": round(statistics.median(rates), 1), "best_images_per_sec": round(max(rates), 1)}


def jobs_of(text):
    jobs = []
    for job in text.split(","):
        name, _, rest = job.partition(":")
        batch, _, graph = rest.partition(":")
        if not name or not batch.isdecimal() or int(batch) == 0 or graph not in ("", "graph"):
            raise argparse.ArgumentTypeError(f"'{job}' is no NETWORK:BATCH or NETWORK:BATCH:graph")
        jobs.append((name, int(batch), bool(graph)))
    return jobs


def write_lines(path, lines):
    temporary = path + ".tmp"
    with open(temporary, "w", encoding="utf-8") as out:
        out.writelines(line + "\n" for line in lines)
    os.replace(temporary, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="lenet,gluon_lenet", help="comma-separated: lenet, lenet_avg, gluon_lenet, resnet20, text_cnn, text_lstm, text_gru, lstm_200, gru_200, rnn_200")
    parser.add_argument("--batch-size", type=bench_run.positive, default=64)
    parser.add_argument("--threads", type=bench_run.thread_counts, default="1", help="comma-separated numbers of threads")
    parser.add_argument("--steps", type=bench_run.positive, default=30, help="steps per repeat")
    parser.add_argument("--repeats", type=bench_run.positive, default=5, help="the median of these is reported")
    parser.add_argument("--layout", choices=("both", "channels_last", "contiguous"), default="both")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--graph", action="store_true", help="on cuda: replay the step as a CUDA graph")
    parser.add_argument("--jobs", type=jobs_of, metavar="NETWORK:BATCH[:graph],...",
                        help="measure these one after the other, in place of --network, --batch-size and --graph")
    parser.add_argument("--tf32", choices=("yes", "no"), default="no", help="on cuda: products and convolutions in TensorFloat-32")
    parser.add_argument("--json", metavar="FILE", help="write the objects here, one per line")
    args = parser.parse_args()

    os.environ.setdefault("ATEN_CPU_CAPABILITY", best_capability())
    try:
        import torch
    except ImportError as error:
        print(f"bench_pytorch.py: skipped, no PyTorch for {sys.executable} ({error}); Debian: apt-get install python3-torch "
              "libopenblas0-openmp, then run it with /usr/bin/python3", file=sys.stderr)
        return
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.tf32 == "yes"
    torch.backends.cudnn.benchmark = True
    layouts = {"both": (True, False), "channels_last": (True,), "contiguous": (False,)}[args.layout]
    lines, failed = [], False
    for name, batch_size, graph in args.jobs or [(name, args.batch_size, args.graph) for name in args.network.split(",")]:
        for threads in args.threads:
            for channels_last in (False,) if name in ("text_lstm", "text_gru") or is_one_layer(name) else layouts:
                try:
                    result = measure(torch, name, batch_size, threads, channels_last, args.steps, args.repeats, args.device, graph)
                except RuntimeError as error:  # PyTorch's errors of a card; the other jobs are measured
                    if not args.jobs:
                        raise
                    failed = True
                    print(f"bench_pytorch.py: {name}:{batch_size}: {error}", file=sys.stderr)
                    continue
                lines.append(json.dumps({"framework": f"pytorch {torch.__version__}", **result}))
                print(lines[-1], flush=True)
                if args.json:
                    write_lines(args.json, lines)
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    bench_run.started(main)
