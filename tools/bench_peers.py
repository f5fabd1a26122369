"""Tables of tools/bench_stores.py beside other programs: all-reduce of gloo and Open MPI, parameter servers built elsewhere."""
import json
import os
import shlex
import shutil
import subprocess

import bench_kv
from bench_run import ROOT, Skipped, figure, in_turns, objects, ratio, run, table

PYTHON = "/usr/bin/python3"  # Debian's, which has python3-torch and python3-mpi4py
PEER_HELP = ("a parameter server to stand beside this one: a command, in which {workers}, {servers}, {transport} (tcp or ipc), {bytes} "
             "(of a key) and {keys} are replaced, that pushes to servers which sum and pulls the sum, and prints {\"gbit_per_s\": per direction}; also \"cpu_s_per_gb\", of all "
             "its processes and of payload in one direction, if it knows")
ALL_REDUCE_BYTES = 100_000_000
# (bytes of a key, keys, calls that they are handed over in); no number: as many as fill the working set, each by itself.
PEER_LOADS = ((4 << 10, 40, 1), (4 << 10, 160, 4), (64 << 10, None, 0), (1 << 20, None, 0), (4 << 20, None, 0), (16 << 20, None, 0))
PEER_TRANSPORT = {"tcp": "tcp", "ipc": "ipc", "shm": "ipc"}  # the fastest they have beside ours


def has_module(name):
    return subprocess.run([PYTHON, "-c", f"import {name}"], capture_output=True, check=False).returncode == 0


def all_reduce_peers(args):
    """(name, how, command) of those installed; a line says which are not."""
    program = (PYTHON, os.path.join(ROOT, "tools/bench_all_reduce.py"), "--bytes", ALL_REDUCE_BYTES, "--repeats", 3 if args.quick else 10)
    # As root, in a container, with more processes than cores or fewer.
    mpirun = ("mpirun", "-n", 2, "--allow-run-as-root", "--oversubscribe", "--mca", "btl")
    if has_module("torch"):
        yield "gloo", "tcp", (*program, "gloo")
    else:
        print("(without gloo: Debian's python3-torch has it)\n", flush=True)
    if shutil.which("mpirun") and has_module("mpi4py"):
        yield "Open MPI", "tcp", (*mpirun, "self,tcp", *program, "mpi")
        yield "Open MPI", "shared memory", (*mpirun, "self,vader", *program, "mpi")
    else:
        print("(without Open MPI: Debian's openmpi-bin and python3-mpi4py)\n", flush=True)


def all_reduce(args):
    """Sum of 100 MB of two processes into both: PushPull in place without optimiser, beside all-reduces"""
    def ours(transport, servers):
        line, = bench_kv.kv_bench(transport, 2, servers, "--modes", "push_pull", "--bytes", ALL_REDUCE_BYTES, "--keys", 1, "--in_place",
                                  "--optimizer", "none", "--raw=false", "--repeats", 1, "--seconds", 0.1, "--latency_samples",
                                  5 if args.quick else 20)
        return line["p50_us"] * 1e-3

    def measure(command):
        return lambda: objects(run(*command))[0]["ms"]

    names, measures = [], []
    for transport in bench_kv.transports_here(args):
        for servers in (1, 2):
            names.append((f"Sluice, {servers} server{'s' * (servers > 1)}", transport))
            measures.append(lambda transport=transport, servers=servers: ours(transport, servers))
    for name, how, command in all_reduce_peers(args):
        names.append((name, how))
        measures.append(measure(command))
    results = in_turns(args.pairs, *measures)
    table(("who", "by", "median, ms", "least", "most", "GB/s of the sum"),
          ((*name, figure(ms, 1), f"{min(ms):.1f}", f"{max(ms):.1f}", figure([ALL_REDUCE_BYTES * 1e-6 / each for each in ms], 2))
           for name, ms in zip(names, results)))


def parameter_servers(args):
    """PushPull against a server that sums, 1x1, beside the programs named by --peer"""
    if not args.peer:
        raise Skipped("no --peer NAME=COMMAND is named; its help says what such a command prints")

    def ours(transport, size, keys, calls):
        line, = bench_kv.kv_bench(transport, 1, 1, "--modes", "push_pull", "--bytes", size, "--keys", keys, f"--calls={calls}",
                                  *bench_kv.effort(args))
        return line

    def theirs(command, transport, size, keys):
        values = {"workers": 1, "servers": 1, "transport": PEER_TRANSPORT[transport], "bytes": size, "keys": keys}
        return json.loads(run(*(part.format(**values) for part in shlex.split(command))).splitlines()[-1])

    def row(name, command, transport, size, few, calls):
        keys = few or max(1, (16 << 20 if args.quick else bench_kv.LARGER_THAN_CACHES) // 2 // size)
        lines, peers = in_turns(args.pairs, lambda: ours(transport, size, keys, calls), lambda: theirs(command, transport, size, keys))
        mine, rates = ([line["gbit_per_s"] for line in each] for each in (lines, peers))
        raw = [line["raw"]["two_streams_gbit_per_s"] / 2 for line in lines]
        cpu = [sum(line["cpu_s_per_gb"].values()) for line in lines]
        of_peers = [peer.get("cpu_s_per_gb") for peer in peers]
        costs = ("-", "-") if None in of_peers else (figure(of_peers, 2), f"{ratio(cpu, of_peers):.2f}")
        loops, of_loops = ([line["raw"][f"zmq_loop_{what}"] for line in lines] for what in ("gbit_per_s", "cpu_s_per_gb"))
        return (name, transport, PEER_TRANSPORT[transport], bench_kv.size_text(size) + (f" x {few}" if few else ""), figure(mine, 1),
                figure(rates, 1), f"{ratio(mine, rates):.2f}", f"{ratio(mine, raw):.2f}", f"{ratio(rates, raw):.2f}", figure(cpu, 2), *costs, figure(loops, 1), figure(of_loops, 2))

    table(("peer", "Sluice by", "peer by", "key", "Sluice, Gbit/s", "peer, Gbit/s", "ratio", "Sluice of raw streams", "peer of raw streams",
           "Sluice, CPU s/GB", "peer, CPU s/GB", "ratio", "bare ZeroMQ, Gbit/s", "bare ZeroMQ, CPU s/GB"),
          (row(name, command, transport, *load) for name, command in args.peer for transport in bench_kv.transports_here(args)
           for load in (PEER_LOADS[:3] if args.quick else PEER_LOADS)))


TABLES = (all_reduce, parameter_servers)
