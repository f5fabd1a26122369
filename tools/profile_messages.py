#!/usr/bin/env python3
"""Prints what a part's way costs, stage by stage: instructions of worker and server by callgrind, system calls by strace.

    tools/profile_messages.py --transports tcp,shm

A part is what travels by itself: a key up to 128 KiB, or a piece of a larger one. One worker, one server that sums, push_pull.
Instructions are those of user space, whole functions, all threads; libzmq's and the C library's outside of the stages are rows of
their own. Valgrind's mremap(2) doubles no mapping, so under it parts of large keys are copied where they land over shm, too. Needs `make programs`, and Debian's valgrind and strace.
"""
import argparse
import collections
import glob
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out
import bench_kv
import bench_machine
import bench_run

# (stage, functions whose whole cost counts, calls (from, to) within that are stages of their own)
WORKER = (
    ("the call: checks, events, arrays, batches", ("DistStore::DoPushPull(",),
     (("DenseKeys::PushPull(", "CallBatch::~CallBatch("), ("CallBatch::Add(", "ClientLoop::Submit("))),
    ("operations and parts", ("KeyedOperations::Start(",), (("KeyedOperations::Start(", "ConnectionTable::Flush("),)),
    ("batches and requests", ("ShardConnection::Flush(",), (("ShardConnection::Send(", "ZmqDriver::Send("),)),
    ("envelope written", ("wire::EncodeEnvelope(",), ()),
    ("payload leased out, or packed", ("SharedMemory::LeaseOut(", "wire::Pack("), ()),
    ("handed to libzmq", ("transport::SendMultipart(",), ()),
    ("taken from libzmq", ("transport::ReceiveMultipart(",), ()),
    ("envelope read", ("wire::DecodeEnvelope(", "wire::Unpack("), ()),
    ("payload leased", ("SharedMemory::OpenLeases(", "SharedMemory::Collect("), ()),
    ("values landed: a copy, or adopted", ("worker::Deliver(", "worker::DeliverKept("), ()),
    ("answers to ends of operations", ("ShardAnswers::OnValues(", "ShardAnswers::OnAck(", "CompletionQueue::Run("),
     (("ShardAnswers::OnValues(", "worker::Deliver("), ("OpenOperations::DeliverAll(", "worker::DeliverKept("))),
)
SERVER = (
    ("taken from libzmq", ("transport::ReceiveMultipart(",), ()),
    ("envelope read", ("wire::DecodeEnvelope(", "wire::Unpack("), ()),
    ("payload leased", ("SharedMemory::OpenLeases(", "SharedMemory::Collect("), ()),
    ("pushes checked and kept", ("Shard::OnPush(",), (("RoundCloser::", "RoundCloser::UpdateArrays("),)),
    ("rounds closed: the sum", ("RoundCloser::UpdateArrays(",), ()),
    ("envelope written", ("wire::EncodeEnvelope(",), ()),
    ("payload leased out, or packed", ("SharedMemory::LeaseOut(", "wire::Pack("), ()),
    ("handed to libzmq", ("transport::SendMultipart(",), ()),
)
PARTS = ("worker::Deliver(",)  # called once for each
KEYS = ("Issuer::Issue(", "SmallKeyBatch::Add(")  # one of them is called once for each; their overloads may call each other
LOADS = {"40 keys of 4 KiB, one call": (4 << 10, 40, "--calls=1"), "64 KiB": (64 << 10, 64), "1 MiB": (1 << 20, 16)}
SYSTEM_CALLS = ("sendmsg", "sendto", "write", "recvmsg", "recvfrom", "read", "epoll_wait", "poll", "futex", "getpid")


class Profile:
    """One output file of callgrind: what functions cost with all that they call, and what libraries cost by themselves.

    The format: https://valgrind.org/docs/manual/cl-format.html, with names that are written once.
    """

    def __init__(self, path):
        self.whole = collections.Counter()  # by function
        self.called = collections.Counter()  # times
        self.edges = collections.Counter()  # (caller, callee)
        self.own = collections.Counter()  # by object file
        names, objects = {}, {}
        function = obj = callee = None
        after_call = False
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if match := re.match(r"(c?fn|c?ob)=\((\d+)\)(?: (.*))?", line):
                    kind, number, name = match.groups()
                    known = names if kind.endswith("fn") else objects
                    if name:
                        known[number] = name.strip()
                    if kind == "fn":
                        function = known[number]
                    elif kind == "cfn":
                        callee = known[number]
                    elif kind == "ob":
                        obj = known[number]
                elif line.startswith("calls="):
                    self.called[callee] += int(line[6:].split()[0])
                    after_call = True
                elif line[:1].isdigit() or line[:1] in "+-*":
                    cost = int(line.split()[-1]) if len(line.split()) > 1 else 0
                    if after_call:
                        self.edges[function, callee] += cost
                        if callee != function:
                            self.whole[function] += cost
                    else:
                        self.whole[function] += cost
                        self.own[os.path.basename(obj or "")] += cost
                    after_call = False

    def matching(self, wanted):
        return [name for name in self.whole if any(part in name for part in wanted)
                and "::{lambda" not in name and not name.startswith(("void std::", "std::"))]

    def times(self, wanted):
        return sum(self.called[name] for name in self.matching(wanted))

    def cost(self, functions, without):
        """With all they call, other than from each other."""
        ours = self.matching(functions)
        total = sum(self.whole[name] for name in ours)
        total -= sum(cost for (caller, callee), cost in self.edges.items() if caller in ours and callee in ours and caller != callee)
        return total - sum(self.cost_of_call(*call) for call in without)

    def cost_of_call(self, caller, callee):
        callers, callees = self.matching((caller,)), self.matching((callee,))
        return sum(cost for (a, b), cost in self.edges.items() if a in callers and b in callees)


def job(transport, load, prefix):
    """kv_bench's line, with both programs under `prefix` (a function of the role)."""
    size, keys, *flags = load
    environment = ["--env", f"SLUICE_TRANSPORT={transport}"]
    server = " ".join([*prefix("server"), bench_run.program("sluice_server")])
    line, = bench_run.objects(bench_run.written(
        "--json", bench_run.LAUNCH, "-n", 1, "-s", 1, *environment, "--server-command", server, *prefix("worker"),
        bench_run.program("kv_bench"), "--modes", "push_pull", "--bytes", size, "--keys", keys, *flags, "--raw=false",
        "--repeats", 1, "--latency_samples", 1, "--seconds", 2))
    return line


def instructions(transport, load):
    """[(process, stage, instructions a part)], how many parts a key has, and the calls of stages that did not happen."""
    with tempfile.TemporaryDirectory() as folder:
        def under(role):
            return ("valgrind", "-q", "--tool=callgrind", "--trace-children=yes", f"--callgrind-out-file={folder}/{role}.%p")

        job(transport, load, under)
        profiles = {role: Profile(max(glob.glob(f"{folder}/{role}.*"), key=os.path.getsize)) for role in ("worker", "server")}
    parts = profiles["worker"].times(PARTS)
    rows, absent = [], set()
    for role, stages in (("worker", WORKER), ("server", SERVER)):
        profile = profiles[role]
        absent |= {call for _, _, without in stages for call in without if profile.cost_of_call(*call) == 0}
        rows += [(role, stage, profile.cost(functions, without) / parts) for stage, functions, without in stages]
        for library in ("libzmq", "libprotobuf"):
            own = sum(cost for name, cost in profile.own.items() if name.startswith(library))
            rows.append((role, f"of all: in {library}", own / parts))
    keys = max(profiles["worker"].called[name] for name in profiles["worker"].matching(KEYS))
    return rows, round(parts / keys), absent


def system_calls(transport, load, parts_of_key):
    """{role: calls a part}"""
    with tempfile.TemporaryDirectory() as folder:
        def under(role):
            return ("strace", "-f", "-q", "-c", "-o", f"{folder}/{role}")

        line = job(transport, load, under)
        result = {}
        for role in ("worker", "server"):
            with open(f"{folder}/{role}", encoding="utf-8") as counts:
                rows = [row.split() for row in counts]
            calls = {row[-1]: int(row[3]) for row in rows if len(row) >= 5 and row[3].isdigit()}
            result[role] = sum(calls.get(name, 0) for name in SYSTEM_CALLS) / (line["passes"] * load[1] * parts_of_key)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transports", default="tcp,shm", metavar="NAME,...", help="some of tcp, ipc, shm (default tcp,shm)")
    args = parser.parse_args()
    transports = args.transports.split(",")
    if unknown := set(transports) - set(bench_kv.TRANSPORTS):
        parser.error(f"--transports names {', '.join(sorted(unknown))}; there are {', '.join(bench_kv.TRANSPORTS)}")
    for tool in ("valgrind", "strace"):
        if shutil.which(tool) is None:
            parser.error(f"{tool} is not installed: tools/install_deps.sh --develop")
    print(f"Machine:\n\n{bench_machine.describe()}\n", flush=True)
    columns = [(transport, name) for transport in transports for name in LOADS]
    counted, calls, absent = {}, {}, []
    for column in columns:
        transport, load = column[0], LOADS[column[1]]
        counted[column], parts_of_key, without = instructions(transport, load)
        absent.append(without)
        calls[column] = system_calls(transport, load, parts_of_key)
    rows = [(role, stage, *(f"{counted[column][i][2]:,.0f}" for column in columns))
            for i, (role, stage, _) in enumerate(counted[columns[0]])]
    rows += [(role, "system calls for messages and waiting", *(f"{calls[column][role]:.2f}" for column in columns))
             for role in ("worker", "server")]
    for caller, callee in sorted(set.intersection(*absent)):
        print(f"no load has a call from {caller}) to {callee}): over tcp and shm, that says that a stage's names are out of date, and "
              "counts what another stage counts", file=sys.stderr)
    bench_run.table(("process", "a part's", *(f"{transport}, {name}" for transport, name in columns)), rows)


if __name__ == "__main__":
    bench_run.started(main)
