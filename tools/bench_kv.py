"""Tables of tools/bench_stores.py that need no other program: kv_bench's jobs, beside what the machine gives in the same job."""
import functools
import itertools
import statistics
import time

from bench_run import LAUNCH, figure, in_turns, launched, objects, program, run, table, written

# DMLC_LOCAL says what SLUICE_TRANSPORT=ipc says, to builds that do not read that.
TRANSPORTS = {"tcp": {"SLUICE_TRANSPORT": "tcp"}, "ipc": {"SLUICE_TRANSPORT": "ipc", "DMLC_LOCAL": "1"},
              "shm": {"SLUICE_TRANSPORT": "shm"}}
MODES = ("push", "push_pull")
LARGER_THAN_CACHES = 256 << 20


def kv_bench(transport, workers, servers, *flags, pinned=()):
    """What worker 0 of a job measures: one object for each of its lines."""
    environment = [part for name, value in TRANSPORTS[transport].items() for part in ("--env", f"{name}={value}")]
    return objects(written("--json", *pinned, LAUNCH, "-n", workers, "-s", servers, *environment, program("kv_bench"), *flags))


@functools.cache
def missing(transport):
    """Why there is no such transport here; empty where there is."""
    try:
        line, = kv_bench(transport, 1, 1, "--modes", "push", "--bytes", 4, "--keys", 1, "--seconds", 0.01, "--repeats", 1, "--raw=false")
    except SystemExit as failed:
        return str(failed.code)
    return "" if line["transport"] == transport else "not in this build"


def transports_here(args):
    """Those asked for that are there; a line says which are not."""
    for name in args.transports:
        if why := missing(name):
            print(f"(without {name}: {why})\n", flush=True)
    return [name for name in args.transports if not missing(name)]


def effort(args):
    """How long kv_bench measures, and in how much memory."""
    if args.quick:
        return "--seconds", 0.05, "--repeats", 2, "--working_set", 16 << 20
    return "--seconds", 0.25, "--repeats", args.pairs, "--working_set", LARGER_THAN_CACHES


def size_text(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB" if size >= 1 << 10 else f"{size} B"


def number(value):
    """Three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def cpu(line, role):
    return sum(seconds for process, seconds in line["cpu_s_per_gb"].items() if process.startswith(role))


COSTS = ("p50, us", "p99, us", "CPU of workers, s/GB", "CPU of servers, s/GB", "copies per byte")


def costs(line):
    return (number(line["p50_us"]), number(line["p99_us"]), number(cpu(line, "worker")), number(cpu(line, "server")),
            f"{line['copies_per_byte']:.2f}")


def shares(line):
    """Returns the store's shares of what the machine gave in this job: streams, ZeroMQ, memory copy, sums."""
    raw, rate, directions = line["raw"], line["gbit_per_s"], line["directions"]
    zmq = raw["zmq_gbit_per_s" if directions == 1 else "zmq_both_ways_gbit_per_s"]
    summing = 8 * raw["add_gbyte_per_s"][min(line["servers"], 2) - 1]
    return [f"{share:.2f}" for share in (directions * rate / raw["two_streams_gbit_per_s"], rate / zmq,
                                         directions * rate / (8 * raw["copy_gbyte_per_s"][0]), rate / summing)]


def print_raw(lines):
    def row(line):
        raw = line["raw"]
        gbit = (raw["two_streams_gbit_per_s"], raw["zmq_gbit_per_s"], raw["zmq_summed_gbit_per_s"], raw["zmq_both_ways_gbit_per_s"])
        return size_text(line["bytes"]), *map(number, (*gbit, *(8 * rate for what in ("copy", "add") for rate in raw[f"{what}_gbyte_per_s"])))

    table(("key", "two streams, both added", "ZeroMQ one way", "the same, summed", "ZeroMQ there and back", "copy, 1 thread", "copy, 2",
           "`a += b`, 1 thread", "`a += b`, 2"), (row(line) for line in lines if line["mode"] == MODES[0]))


def matrix(args):
    """Pushing and pulling, by transport, workers x servers and size of a key"""
    def job(transport, workers, servers):
        return kv_bench(transport, workers, servers, "--modes", ",".join(MODES), "--bytes", ",".join(map(str, args.sizes)),
                        "--max_keys", 16384, *effort(args))

    def rows(jobs):
        for (workers, servers), lines in jobs:
            for line in lines:
                yield (f"{workers}x{servers}", size_text(line["bytes"]), line["mode"], number(line["gbit_per_s"]), *shares(line), *costs(line))

    for transport in transports_here(args):
        first = job(transport, *args.topologies[0])
        print(f"**{transport}**: the machine, Gbit/s (a round trip of 4 bytes over ZeroMQ: {first[0]['raw']['zmq_rtt_us']:.1f} us), "
              "then the store, each row beside what the machine gave in its own job\n")
        print_raw(first)
        print()
        others = ((topology, job(transport, *topology)) for topology in args.topologies[1:])
        table(("workers x servers", "key", "mode", "Gbit/s", "of two streams", "of ZeroMQ", "of copy", "of `a += b`", *COSTS),
              rows(itertools.chain([(args.topologies[0], first)], others)))
        print(flush=True)


def one_float(args):
    """A PushPull of one float beside the raw round trip, all processes pinned to one core"""
    def once(transport):
        line, = kv_bench(transport, 1, 1, "--modes", "push_pull", "--bytes", 4, "--keys", 1, "--latency_samples", 20000,
                         "--seconds", 0.02 if args.quick else 0.2, pinned=("taskset", "-c", "0"))
        return line["p50_us"], line["p99_us"], line["raw"]["zmq_rtt_us"]

    def row(transport):
        p50, p99, raw = zip(*(once(transport) for _ in range(args.pairs)))
        ratios = [ours / theirs for ours, theirs in zip(p50, raw)]
        return (transport, figure(p50, 1), figure(p99, 1), figure(raw, 1), f"{statistics.median(ratios):.2f}",
                f"{min(ratios):.2f}", f"{max(ratios):.2f}")

    table(("transport", "p50, us", "p99, us", "raw round trip, us", "ratio", "least", "most"), map(row, transports_here(args)))


SMALL = ("--bytes", 4096, "--keys", 40, "--raw_loops")


def of_loops(line):
    """What ZeroMQ gives in the same messages between as many processes, and what with the least work in addition."""
    raw, rate = line["raw"], line["gbit_per_s"]
    return [text for name in ("loop", "least") for text in (number(raw[f"zmq_{name}_gbit_per_s"]), f"{rate / raw[f'zmq_{name}_gbit_per_s']:.2f}")]


LOOPS = ("bare ZeroMQ", "ratio", "with the least work", "ratio")


def many_keys(args):
    """40 keys of 4 KiB in one call"""
    def rows(transports):
        for transport in transports:
            for workers, servers in args.topologies:
                for line in kv_bench(transport, workers, servers, "--modes", ",".join(MODES), *SMALL, "--calls=1", *effort(args)):
                    loops = of_loops(line) if line["mode"] == "push_pull" else ["-"] * len(LOOPS)
                    yield transport, f"{workers}x{servers}", line["mode"], number(line["gbit_per_s"]), *loops, *costs(line)

    table(("transport", "workers x servers", "mode", "Gbit/s", *LOOPS, *COSTS), rows(transports_here(args)))


def calls(args):
    """40 keys of 4 KiB in several calls, all under way at once, tcp, 1x1, push_pull"""
    def once(count):
        line, = kv_bench("tcp", 1, 1, "--modes", "push_pull", *SMALL, "--calls", count, *effort(args))
        return line

    def row(count):
        lines = [once(count) for _ in range(args.pairs)]
        rates, loop, least = ([line["gbit_per_s"] for line in lines],
                              *([line["raw"][f"zmq_{name}_gbit_per_s"] for line in lines] for name in ("loop", "least")))
        return (str(count), *(text for each in (rates, loop, least) for text in (figure(each, 1), f"{min(each):.1f}", f"{max(each):.1f}")))

    table(("calls", *(text for name in ("Gbit/s", "bare ZeroMQ", "with the least work") for text in (name, "least", "most"))),
          (row(count) for count in ((1, 40) if args.quick else (1, 2, 4, 8, 40))))


def closing(args):
    """Rounds that close on a server's shard, beside one plain loop over the same arrays, one thread"""
    workers = ("--workers", "1,2") if args.quick else ()
    turns = [objects(run(program("close_bench"), *workers)) for _ in range(args.pairs)]

    def column(name, lines):
        return statistics.median(line[name] for line in lines)

    table(("workers", "update", "server, GB/s", "plain loop, GB/s", "ratio"),
          ((str(lines[0]["workers"]), lines[0]["update"], f"{column('server_gb_per_sec', lines):.1f}",
            f"{column('plain_gb_per_sec', lines):.1f}", f"{column('ratio', lines):.2f}") for lines in zip(*turns)))


def compressed(_args):
    """Encoding and decoding of compressed gradients, one thread"""
    print(f"```\n{run(program('codec_bench'))}```", flush=True)


def start(args):
    """Launch to the last value of `kv_tour` and its end, 1 + 2 + 2 processes"""
    def once():
        begin = time.perf_counter()
        run(LAUNCH, "-n", 2, "-s", 2, program("kv_tour"), "--kv-store", "dist_sync")
        return time.perf_counter() - begin

    seconds, = in_turns(args.pairs, once)
    table(("median, s", "least", "most"), [(f"{statistics.median(seconds):.2f}", f"{min(seconds):.2f}", f"{max(seconds):.2f}")])


def rows(args):
    """A row-sparse table of 10 million x 64 float32 (2,560 MB) on 2 servers: 100,000 ids a step and worker, 2 workers; worker 0's steps"""
    steps = 3 if args.quick else 30

    def once(distribution):
        return objects(launched(2, program("embedding_table"), "--kv-store", "dist_sync", "--rows", 10_000_000, "--ids", 100_000,
                                "--num-steps", steps, "--distribution", distribution))[0]

    def row(distribution):
        result = once(distribution)
        pull, push = (result[what][steps // 3:] for what in ("pull_ms", "push_ms"))
        megabytes = [result[what] / 1e6 for what in ("pushed_bytes", "pulled_bytes")]
        return (distribution, figure(pull), f"{min(pull):.0f}", f"{max(pull):.0f}", figure(push), f"{min(push):.0f}", f"{max(push):.0f}",
                *(f"{each:.1f}" for each in megabytes), f"{max(result['server_max_rss_bytes'].values()) / 1e6:.0f}")

    table(("ids", "pull, ms", "least", "most", "push, ms", "least", "most", "MB pushed", "MB pulled", f"a server after {steps} steps, MB"),
          map(row, ("uniform", "zipf")))


TABLES = (matrix, one_float, many_keys, calls, closing, compressed, rows, start)
