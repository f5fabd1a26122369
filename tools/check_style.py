#!/usr/bin/env python3
"""Holds what a reader may rely on: formatting, short functions, comments that are sentences, documents that fit a window.

Usage: tools/check_style.py [ROOT]      exit code 1 and a line for each finding

Formatting needs Debian's clang-format 14 (tools/install_deps.sh --tests): another version breaks lines elsewhere. Without it that part is
left out with a line that says so; with SLUICE_LABS=required (`make ci`) that is a finding.
"""
import ast
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tokenize

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out

import checks  # noqa: E402

LONGEST_FUNCTION = 60  # lines
LONGEST_UNEXPLAINED = 100  # lines: a longer .cc opens with what it owns, its invariants and its callers
WIDEST_COMMENT = 110   # columns: the formatter leaves comments as they are
WIDEST_OF_DOCUMENTS = 120
NOT_OURS = {".git", ".cache", "build", "data", "logs"}  # at the top, and not tracked
TABLES = {"src/wire/convert_body.cc"}  # a case for every message
CODE = ("src", "include", "examples", "bench", "python", "tests")
CODE_SUFFIXES = (".h", ".cc", ".cuh", ".cu")
SCRIPTS = {".py", ".sh", ".cmake"}  # and CMakeLists.txt
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
FORMATTER = "clang-format-14"
OF = "begins with 'Of'; begin with what it speaks of"
FLAG_OF = re.compile(r'DEFINE_\w+\(\s*\w+,\s*("[^"]*"|[^",]*),\s*"[Oo]f\b')  # its name, default and text
INITIALISER = re.compile(r"\s*\w+(<.*>)?[({]")  # one of a constructor's
OPENS_NO_FUNCTION = re.compile(r"^\s*(namespace|class|struct|enum|union|extern|template|public|private)\b|= \{$|^\s*\{$")


def sources(root, folders=CODE):
    return sorted(path for folder in folders for suffix in CODE_SUFFIXES for path in (root / folder).rglob(f"*{suffix}"))


def code_of(line):
    return re.sub(r"\s*//.*", "", line)


def opening(lines, last):
    """The first line of what the { that ends a line opens: wrapped parameters and a constructor's initialisers come between."""
    first, depth = last, 0
    while True:
        code = code_of(lines[first])
        depth += code.count(")") - code.count("(")
        after_comma = first > 0 and code_of(lines[first - 1]).endswith(",")
        goes_on = depth > 0 or depth == 0 and (code.lstrip().startswith(": ") or after_comma and INITIALISER.match(code))
        if first == 0 or not goes_on:
            return first
        first -= 1


def long_functions(name, lines):
    """Blocks of formatted code: one ends with the first brace that is indented as the line that opens it, or less."""
    for last, line in enumerate(map(code_of, lines)):
        if not line.endswith("{"):
            continue
        first = opening(lines, last)
        if OPENS_NO_FUNCTION.search(line) or OPENS_NO_FUNCTION.search(code_of(lines[first])):
            continue
        indent = len(lines[first]) - len(lines[first].lstrip())
        ends = (i for i in range(last + 1, len(lines)) if lines[i].lstrip().startswith("}") and len(lines[i]) - len(lines[i].lstrip()) <= indent)
        end = next(ends, last)
        if end - last - 1 > LONGEST_FUNCTION:
            yield f"{name}:{first + 1}: a function of {end - last - 1} lines; at most {LONGEST_FUNCTION}, a screen"


def comments(name, lines):
    for number, line in enumerate(lines, 1):
        if re.search(r"(//|/\*)\s*Of\b|\S\s*//\s*of\b", line):
            yield f"{name}:{number}: a comment {OF}"
        if line.lstrip().startswith("//") and len(line) > WIDEST_COMMENT:
            yield f"{name}:{number}: a comment of {len(line)} columns; at most {WIDEST_COMMENT}"


def flags(name, lines):
    text = "\n".join(lines)
    for match in FLAG_OF.finditer(text):
        yield f"{name}:{text.count(chr(10), 0, match.end()) + 1}: a flag's text {OF}"


def comments_of_script(name, text):
    """Python's comments are told from its strings; elsewhere a # after a space begins one."""
    if name.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and re.match(r"#+\s*[Oo]f\b", token.string):
                yield f"{name}:{token.start[0]}: a comment {OF}"
            if token.type == tokenize.STRING and re.match(r"f?[\"']of\b", token.string, re.I) and "help=" in token.line:
                yield f"{name}:{token.start[0]}: a flag's text {OF}"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, DOCUMENTED) and re.match(r"Of\b", ast.get_docstring(node) or ""):
                yield f"{name}:{node.body[0].lineno}: a docstring {OF}"
        return
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r"(^|\s)#+\s*[Oo]f\b", line):
            yield f"{name}:{number}: a comment {OF}"


def unexplained(name, lines):
    """A .cc or .cu file that is long and does not open with a comment."""
    if name.suffix in (".cc", ".cu") and len(lines) > LONGEST_UNEXPLAINED and not lines[0].startswith("//"):
        yield f"{name}:1: a file of {len(lines)} lines opens with a comment: what it owns, its invariants, its callers"


def wide_documents(root):
    for path in sorted(root.rglob("*.md")):
        name = path.relative_to(root)
        if name.parts[0] in NOT_OURS:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if len(line) > WIDEST_OF_DOCUMENTS:
                yield f"{name}:{number}: a line of {len(line)} characters; at most {WIDEST_OF_DOCUMENTS}"


def scripts(root):
    for path in sorted(root.rglob("*.*")):
        if (path.suffix in SCRIPTS or path.name == "CMakeLists.txt") and path.relative_to(root).parts[0] not in NOT_OURS:
            yield path


def unformatted(root):
    if shutil.which(FORMATTER) is None:
        why = f"formatting is not looked at: there is no {FORMATTER} (tools/install_deps.sh --tests)"
        print(why)
        return [why] if os.environ.get("SLUICE_LABS") == "required" else []
    files = [str(path) for path in sources(root)]
    ran = subprocess.run([FORMATTER, "--dry-run", *files], cwd=root, capture_output=True, text=True, check=True)
    places = {match[1]: match[2] for match in re.finditer(r"^(.*?):(\d+):\d+: warning: code should be clang-formatted", ran.stderr, re.MULTILINE)}
    return [f"{pathlib.Path(path).relative_to(root)}:{number}: is not formatted; `make format` does it" for path, number in sorted(places.items())]


def findings(root):
    found = list(wide_documents(root))
    for path in scripts(root):
        found += comments_of_script(path.relative_to(root), path.read_text(encoding="utf-8"))
    for path in sources(root):
        name, lines = path.relative_to(root), path.read_text(encoding="utf-8").splitlines()
        found += comments(name, lines)
        found += flags(name, lines)
        found += unexplained(name, lines)
        if str(name) not in TABLES:
            found += long_functions(name, lines)
    return found + unformatted(root)


def main(arguments):
    found = findings(checks.root_of(__doc__, arguments))
    for line in found:
        print(line)
    print(f"check_style: {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
