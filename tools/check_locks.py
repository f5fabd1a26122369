#!/usr/bin/env python3
"""Holds which mutex guards what: Clang's thread safety analysis of the code that uses base/mutex.h.

Usage: tools/check_locks.py [ROOT]      exit code 1 and a line for each finding

It needs clang (tools/install_deps.sh --tests). Without it the analysis is left out with a line that says so; with SLUICE_LABS=required
(`make ci`) that is a finding. A std::mutex is a finding in any case: the analysis does not see it.
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out

import checks  # noqa: E402
import cores  # noqa: E402

COMPILER = "clang++"
FLAGS = ("-fsyntax-only", "-std=c++20", "-Isrc", "-Iinclude", "-Iexamples", "-Wno-everything", "-Wthread-safety", "-x", "c++", "-")
MAY_USE_STD = {  # the file: why
    "src/base/mutex.h": "wraps it",
    "src/base/guarded.h": "waits on a condition variable; its data is private",
    "src/transport/zmq/loop_lock.h": "wraps it; who holds the lock depends on the thread",
    "examples/own_server.cc": "users of the library do not have base/mutex.h",
}
CODE = ("src", "bench", "examples")
STD_LOCKS = re.compile(r"\bstd::(mutex|lock_guard|unique_lock|scoped_lock)\b")


def sources(root, suffix):
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for folder in CODE for path in sorted((root / folder).rglob(suffix))}


def plain_mutexes(files):
    for name, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            if name not in MAY_USE_STD and STD_LOCKS.search(line.split("//")[0]):
                yield f"{name}:{number}: {STD_LOCKS.search(line)[0]} is not analysed; use Mutex and MutexLock (base/mutex.h)"


def units(root):
    """The .cc files that take a lock, or include a header of their folder (CODE) with data that a mutex guards."""
    headers, files = sources(root, "*.h"), sources(root, "*.cc")
    for folder in CODE:
        guarded = [name.removeprefix(f"{folder}/") for name, text in headers.items() if name.startswith(f"{folder}/") and "SLUICE_GUARDED_BY(" in text]
        includes = tuple(f'#include "{name}"' for name in guarded)
        for name, text in files.items():
            if name.startswith(f"{folder}/") and ("MutexLock" in text or "SLUICE_GUARDED_BY(" in text or any(line in text for line in includes)):
                yield name


def analysed(root, names):
    """The findings in some files. They are one compilation, as most of one is the headers they share; where that finds anything, which
    may be that two of them have the same local name, each is one of its own."""
    text = "".join(f'#include "{root / name}"\n' for name in names)
    ran = subprocess.run([COMPILER, *FLAGS], cwd=root, input=text, capture_output=True, text=True, check=False)
    found = [line.removeprefix(f"{root}/") for line in ran.stderr.splitlines() if re.match(r"\S+?:\d+:\d+: (warning|error|fatal error):", line)]
    return [line for name in names for line in analysed(root, [name])] if found and len(names) > 1 else found


def findings(root):
    found = [*plain_mutexes(sources(root, "*.h")), *plain_mutexes(sources(root, "*.cc"))]
    if shutil.which(COMPILER) is None:
        why = f"locks are not analysed: there is no {COMPILER} (tools/install_deps.sh --tests)"
        print(why)
        return found + ([why] if os.environ.get("SLUICE_LABS") == "required" else [])
    folders = {}
    for name in units(root):
        folders.setdefault(os.path.dirname(name), []).append(name)
    with concurrent.futures.ThreadPoolExecutor(cores.allowed()) as pool:
        for lines in pool.map(lambda names: analysed(root, names), folders.values()):
            found += lines
    return list(dict.fromkeys(found))  # a header's findings come with each file that includes it


def main(arguments):
    found = findings(checks.root_of(__doc__, arguments))
    for line in found:
        print(line)
    print(f"check_locks: {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
