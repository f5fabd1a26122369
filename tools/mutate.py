#!/usr/bin/env python3
"""Draws small mutations of C++ sources at random and tells which of them no test notices.

    tools/mutate.py src/server --count 30 --seed 1

A mutation turns a comparison, leaves a term or a barrier out, swaps "and" with "or", or moves a bound by one. Each is
built and tested by itself: the unit tests of the folder first, then the simulated cluster, then the contract of the
stores. A mutation is killed by the first test that fails, crashes or takes too long; one that does not compile is
drawn anew. What survives is an equal program, or a test is missing. Exit code: 0 when none survived, 1 otherwise.

The tool edits the files in place and restores them, so it needs a clean work tree that nobody else builds in.
"""
import argparse
import dataclasses
import os
import pathlib
import random
import re
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out

import cores  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent

# clang-format puts spaces around comparisons and none around template arguments.
TURNS = {" < ": (" <= ", " > "), " <= ": (" < ",), " > ": (" >= ", " < "), " >= ": (" > ",), " == ": (" != ",),
         " != ": (" == ",), " && ": (" || ",), " || ": (" && ",), " + 1": ("", " + 2"), " - 1": ("", " - 2"),
         " + ": (" - ",), "std::min(": ("std::max(",), "std::max(": ("std::min(",)}
# What a message says, what a check of our own holds, and what is decided at compile time are no behaviour to test.
QUIET = re.compile(r"LOG\(|StrCat\(|SLUICE_CHECK|static_assert|^\s*#|template\b|DumpState|Describe|operator|NOLINT")
LEFT_OUT = re.compile(r"^\s*__sync(threads|warp)\(.*\);\s*$")  # a barrier of a kernel
TERM = re.compile(r" (?:&&|\|\|) ")


@dataclasses.dataclass(frozen=True)
class Mutation:
    path: pathlib.Path
    line: int  # counted from 0
    before: str
    after: str

    def __str__(self):
        name = self.path.relative_to(ROOT)
        return f"{name}:{self.line + 1}\n    - {self.before.strip()}\n    + {self.after.strip()}"


def without_comment(line):
    return line.split("//")[0]


def in_string(line, at):
    return line.count('"', 0, at) % 2 == 1


def left_out_terms(line):
    """The line without one of the terms that && or || join, as long as its parentheses stay in balance."""
    for match in TERM.finditer(line):
        depth = 0
        for end in range(match.end(), len(line) + 1):
            char = line[end:end + 1]
            if char == "(" or char == "[":
                depth += 1
            elif char in (")", "]") and char:
                depth -= 1
            if depth < 0 or (depth == 0 and (not char or char in ";?" or TERM.match(line, end))):
                yield match.start(), line[:match.start()] + line[end:]
                break


def mutations_of(path):
    for number, line in enumerate(path.read_text().splitlines()):
        if QUIET.search(line):
            continue
        code = without_comment(line)
        rest = line[len(code):]
        for old, news in TURNS.items():
            at = code.find(old)
            while at >= 0:
                goes_on = old[-1].isdigit() and code[at + len(old):at + len(old) + 1].isdigit()  # " + 15"
                if not goes_on and not in_string(code, at):
                    for new in news:
                        yield Mutation(path, number, line, code[:at] + new + code[at + len(old):] + rest)
                at = code.find(old, at + 1)
        if LEFT_OUT.match(code):
            yield Mutation(path, number, line, rest)
        for at, shorter in left_out_terms(code):
            if not in_string(code, at):
                yield Mutation(path, number, line, shorter + rest)


def sources_of(folder):
    return sorted(path for pattern in ("*.cc", "*.h", "*.cu", "*.cuh") for path in folder.rglob(pattern))


def unit_tests_of(folder):
    """The test programs of tests/unit and tests/golden that mirror `folder`, or the folder of src/ that it is in."""
    name = folder.relative_to(ROOT / "src").parts[0]
    lists = [ROOT / "tests" / depth / name / "CMakeLists.txt" for depth in ("unit", "golden")]
    return [test for file in lists if file.exists() for test in re.findall(r"sluice_test\((\w+)", file.read_text())]


def write(mutation, text):
    lines = mutation.path.read_text().split("\n")
    lines[mutation.line] = text
    mutation.path.write_text("\n".join(lines))


def run(command, seconds, environments=(None,)):
    """Runs `command` once in each of `environments`, side by side. The first exit code that is not 0, or 0; None where
    they took longer. Their whole process groups end with the call."""
    children = [subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, start_new_session=True) for environment in environments]
    descriptors = {os.pidfd_open(child.pid): child for child in children}
    ends = select.poll()
    for descriptor in descriptors:
        ends.register(descriptor, select.POLLIN)
    deadline, left = time.monotonic() + seconds, len(children)
    try:
        while left > 0:
            ended = ends.poll(max(0, deadline - time.monotonic()) * 1000)
            if not ended:
                return None
            for descriptor, _ in ended:
                ends.unregister(descriptor)
                left -= 1
                if descriptors[descriptor].wait() != 0:
                    return descriptors[descriptor].returncode
        return 0
    finally:
        for descriptor, child in descriptors.items():
            os.close(descriptor)
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()


def shards(count):
    """The environments in which `count` processes of one GoogleTest program share its tests."""
    return [dict(os.environ, GTEST_FAIL_FAST="1", GOMP_SPINCOUNT="3000", GTEST_TOTAL_SHARDS=str(count),
                 GTEST_SHARD_INDEX=str(index)) for index in range(count)]


class Judge:
    def __init__(self, build, stages, seconds, jobs):
        self.build, self.stages, self.seconds, self.environments = build, stages, seconds, shards(jobs)

    def build_one(self, program):
        return run(["cmake", "--build", str(self.build), "--target", program], 1800) == 0

    def verdict(self):
        """'invalid', the name of the program that killed the mutation, or None when it survived."""
        for program in self.stages:
            if not self.build_one(program):
                return "invalid"
            if run([str(self.build / "tests" / program)], self.seconds, self.environments) != 0:
                return program
        return None

    def require_passing(self):
        """The tests pass on the code as it is: otherwise every mutation would count as killed."""
        started = time.monotonic()
        killer = self.verdict()
        if killer is not None:
            sys.exit(f"mutate.py: without any mutation, {killer} fails or does not build: nothing can be told")
        print(f"the tests pass on the code as it is, in {time.monotonic() - started:.0f} s", flush=True)


def try_one(mutation, judge):
    write(mutation, mutation.after)
    try:
        return judge.verdict()
    finally:
        write(mutation, mutation.before)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="whose files are mutated, for example src/server")
    parser.add_argument("--count", type=int, default=30, help="how many mutations that compile (default 30)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the draw (default 1)")
    parser.add_argument("--skip", type=int, default=0, help="goes on after an earlier run of the same seed and sources: the number with which its last mutation begins (default 0)")
    parser.add_argument("--build", default="build", help="a configured build folder (default build)")
    parser.add_argument("--tests", nargs="*", help="test programs, in the order in which they run")
    parser.add_argument("--seconds", type=float, default=300, help="for one test program (default 300)")
    parser.add_argument("--jobs", type=int, default=cores.allowed() + 1,
                        help="processes that share the tests of a program (default: one more than there are cores)")
    parser.add_argument("--list", action="store_true", help="only show what would be drawn")
    return parser.parse_args()


def main():
    args = arguments()
    folder = (ROOT / args.folder).resolve()
    if not folder.is_dir() or ROOT / "src" not in folder.parents:
        sys.exit(f"mutate.py: '{args.folder}' is no folder under src/")
    candidates = [mutation for path in sources_of(folder) for mutation in mutations_of(path)]
    random.Random(args.seed).shuffle(candidates)
    if args.list:
        for mutation in candidates[args.skip:args.skip + args.count]:
            print(mutation)
        return 0
    if subprocess.run(["git", "diff", "--quiet", "--", "src"], cwd=ROOT).returncode != 0:
        sys.exit("mutate.py: src/ has changes that are not committed; commit or stash them first")
    stages = args.tests or [*unit_tests_of(folder), "sim_tests", "contract_tests"]
    judge = Judge((ROOT / args.build).resolve(), stages, args.seconds, args.jobs)
    judge.require_passing()
    killed, survivors = {}, []
    for number, mutation in enumerate(candidates[args.skip:], args.skip + 1):
        if sum(killed.values()) + len(survivors) == args.count:
            break
        verdict = try_one(mutation, judge)
        if verdict == "invalid":
            continue
        print(f"{number} {'SURVIVED' if verdict is None else 'killed by ' + verdict}: {mutation}", flush=True)
        if verdict is None:
            survivors.append(mutation)
        else:
            killed[verdict] = killed.get(verdict, 0) + 1
    judge.verdict()  # what lies in the build folder is the code as it is
    print(f"{args.folder}, seed {args.seed}: {sum(killed.values())} killed "
          f"({', '.join(f'{count} by {name}' for name, count in sorted(killed.items()))}), {len(survivors)} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the file is restored
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
