#!/usr/bin/env python3
"""Holds that every header of src/ compiles alone: it includes what it needs, and a file may include it first. The build itself
compiles those of include/ alone (headers_alone in tests/unit/public).

Usage: tools/check_headers.py [ROOT]             exit code 1 and a line for each finding
       tools/check_headers.py [ROOT] --most N    the first N compilations, those of the last changed headers first

Without --most it takes three minutes of a core.

Every header is the first thing that some compilation sees, in one of three ways that keep their number low:
- A .cc of bench/ or examples/ includes the header first, or its first header does: the build compiles it, without precompiled headers.
- A chain of headers, each of which includes the one before it, is one compilation. What a header sees there beside itself is what it
  includes anyway, and the headers it includes are in turn checked.
- A header that neither holds for is compiled for itself.
"""
import concurrent.futures
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out

import check_commits  # noqa: E402
import checks  # noqa: E402
import cores  # noqa: E402

COMPILER = "c++"
FLAGS = ("-x", "c++", "-std=c++20", "-fsyntax-only", "-w", "-fopenmp", "-Isrc", "-Iinclude", "-")
FOLDERS = ("src", "include")
BUILT = ("bench", "examples")  # their .cc files are compiled without precompiled headers
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


class Headers:
    def __init__(self, root):
        self.root = root
        names = [str(path.relative_to(root)) for folder in FOLDERS for path in (root / folder).rglob("*.h")]
        self.names = sorted(names)
        self.by_include = {name.split("/", 1)[1]: name for name in names}
        self.all_of = {}

    def includes(self, name):
        """The headers that a file names, in order."""
        return [self.by_include[one] for one in INCLUDE.findall((self.root / name).read_text(encoding="utf-8")) if one in self.by_include]

    def closure(self, name):
        """The headers that come with a header."""
        if name not in self.all_of:
            self.all_of[name] = set()  # ends a circle
            for one in self.includes(name):
                self.all_of[name] |= {one} | self.closure(one)
        return self.all_of[name]

    def first_in_the_build(self):
        """The headers that a .cc includes before anything else, and those that such a header includes before anything else; all of include/."""
        found, paths = {name for name in self.names if name.startswith("include/")}, [path for folder in BUILT for path in (self.root / folder).rglob("*.cc")]
        while paths:
            match = INCLUDE.search(paths.pop().read_text(encoding="utf-8"))
            name = self.by_include.get(match[1]) if match else None
            if name and name not in found:
                found.add(name)
                paths.append(self.root / name)
        return found

    def chains(self):
        """The other headers, in as few chains as they can be: a largest matching of each header with one that includes it."""
        first = self.first_in_the_build()
        rest = [name for name in self.names if name not in first]
        before = {}

        def take_place(name, asked):
            for later in rest:
                if later in asked or name not in self.closure(later):
                    continue
                asked.add(later)
                if later not in before or take_place(before[later], asked):
                    before[later] = name
                    return True
            return False

        for name in rest:
            take_place(name, set())
        after = {name: later for later, name in before.items()}
        for name in rest:
            if name not in before:
                chain = [name]
                while chain[-1] in after:
                    chain.append(after[chain[-1]])
                yield chain


def compiled(root, chain):
    text = "".join(f'#include "{root / name}"\n' for name in chain)
    ran = subprocess.run([COMPILER, *FLAGS], cwd=root, input=text, capture_output=True, text=True, check=False)
    if ran.returncode == 0:
        return []
    error = re.search(r"^(\S+?:\d+):\d+: (?:fatal )?error: (.*)", ran.stderr, re.MULTILINE)
    where, what = (error[1].removeprefix(f"{root}/"), error[2]) if error else (chain[-1], ran.stderr.strip())
    return [f"{where}: {what}; does the header include what it needs? Compiled alone: {', '.join(chain)}"]


def last_changed_first(headers, chains, changed):
    """Those that hold or include a changed file, the last changed file's first, and then the others."""
    order = {name: place for place, name in enumerate(changed)}

    def place(chain):
        seen = {name for header in chain for name in (header, *(headers.by_include.get(one, one) for one in headers.closure(header)))}
        return min(order.get(name, len(order)) for name in seen)

    return sorted(chains, key=place)


def findings(root, most=None):
    headers = Headers(root)
    chains = list(headers.chains())
    looked_at = chains if most is None else last_changed_first(headers, chains, check_commits.changed(root))[:most]
    if len(looked_at) < len(chains):
        print(f"{len(chains) - len(looked_at)} of {len(chains)} compilations were left; tools/check_headers.py without --most does all")
    with concurrent.futures.ThreadPoolExecutor(cores.allowed()) as pool:
        return [line for lines in pool.map(lambda chain: compiled(root, chain), looked_at) for line in lines]


def main(arguments):
    parser = checks.parser(__doc__)
    parser.add_argument("--most", type=int, metavar="N", help="do the first N compilations")
    options = parser.parse_args(arguments)
    found = findings(options.root, options.most)
    for line in found:
        print(line)
    print(f"check_headers: {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
