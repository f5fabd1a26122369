#!/usr/bin/env python3
"""Holds that clang-tidy (version 14, .clang-tidy) finds nothing in src/. A wrong finding gets a NOLINT(check) with its name.

Usage: tools/check_tidy.py [FILE ...]        the .cc files named
       tools/check_tidy.py                   those that differ from origin/main, or else that the last 20 commits changed
       tools/check_tidy.py --all             all of src/: about half an hour of a core
       tools/check_tidy.py --most N ...      the first N of these, the last changed ones first, and says how many were left

Exit code 1 and a line for each finding. A header is looked at through the .cc beside it, or else one that includes it. The build folder
must be there, and built: it says how a file is compiled, and has the headers that are generated. Without clang-tidy
(tools/install_deps.sh --tests) a line says so; with SLUICE_LABS=required (`make ci`) that is a finding.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out

import check_commits  # noqa: E402
import check_headers  # noqa: E402
import cores  # noqa: E402

TIDY = "clang-tidy"
FINDING = re.compile(r"^(\S+?):(\d+):\d+: (?:warning|error|fatal error): (.*)$", re.MULTILINE)


def units(root, names):
    """The .cc files of src/ through which the named files are looked at, each once."""
    sources = {str(path.relative_to(root)) for path in (root / "src").rglob("*.cc")}
    found = []
    for name in names:
        if name.endswith(".h") and name.startswith(check_headers.FOLDERS) and (root / name).is_file():
            beside, include = name.removesuffix(".h") + ".cc", f'#include "{name.split("/", 1)[1]}"'
            name = beside if beside in sources else next((one for one in sorted(sources) if include in (root / one).read_text(encoding="utf-8")), "")
        if name in sources and name not in found:
            found.append(name)
    return found


def database(build, folder):
    """Writes to `folder` how files are compiled, without GCC's precompiled headers, which clang-tidy cannot read."""
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    for entry in entries:
        entry["command"] = re.sub(r" -include \S*cmake_pch\.hxx\b", "", entry["command"])
    (folder / "compile_commands.json").write_text(json.dumps(entries), encoding="utf-8")


def tidied(root, build, name):
    ran = subprocess.run([TIDY, "-p", str(build), "--quiet", name], cwd=root, capture_output=True, text=True, check=False)
    lines = [f"{path.removeprefix(f'{root}/')}:{line}: {what}" for path, line, what in FINDING.findall(ran.stdout)]
    if ran.returncode != 0 and not lines:
        lines = [f"{name}: {TIDY} failed: {ran.stderr.strip()[-300:]}"]
    return lines


def findings(root, names, build=None, most=None):
    if shutil.which(TIDY) is None:
        why = f"{TIDY} is not run: it is not there (tools/install_deps.sh --tests)"
        print(why)
        return [why] if os.environ.get("SLUICE_LABS") == "required" else []
    build = build or root / "build"
    if not (build / "compile_commands.json").is_file():
        return [f"{build}/compile_commands.json is not there; `make` makes it"]
    looked_at = names[:most]
    if len(looked_at) < len(names):
        print(f"{len(names) - len(looked_at)} of {len(names)} files were left; tools/check_tidy.py without --most looks at all")
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(cores.allowed()) as pool:
        database(build, pathlib.Path(folder))
        results = list(pool.map(lambda name: tidied(root, folder, name), looked_at))
    return list(dict.fromkeys(line for lines in results for line in lines))  # a header's come with each file that includes it


def main(arguments):
    parser = argparse.ArgumentParser(description="Runs clang-tidy over the files of src/ that changed.")
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--all", action="store_true", help="look at all of src/")
    parser.add_argument("--most", type=int, metavar="N", help="look at the first N files")
    options = parser.parse_args(arguments)
    root = pathlib.Path(__file__).resolve().parents[1]
    if missing := [name for name in options.files if not (root / name).is_file()]:
        parser.error(f"argument FILE: the project has no file '{missing[0]}'")
    names = sorted(str(path.relative_to(root)) for path in (root / "src").rglob("*.cc")) if options.all else options.files or check_commits.changed(root)
    names = units(root, names)
    found = findings(root, names, most=options.most)
    for line in found:
        print(line)
    print(f"check_tidy: {len(names)} files, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
