#!/usr/bin/env python3
"""Holds that a class stays one idea: none declares more than 30 methods.

Usage: tools/check_classes.py [ROOT]      exit code 1 and a line for each finding
       tools/check_classes.py --largest [ROOT]   the twenty largest classes

Constructors, operators and each overload count, but overloads of a class in BY_NAME count once; `= default` and `= delete`, `using`, friends, macros and what a base class declares do not.
The scan reads tokens and needs no compiler.
"""
import dataclasses
import heapq
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out

import checks  # noqa: E402

MOST_METHODS = 30
CODE = ("src", "include", "bench", "examples", "python", "tests")

# Class: why it may have more. An entry that is not needed is a finding.
ALLOWED = {
    "Kernels": "a backend's interface: one method for each operation on arrays",
    "cpu::CpuKernels": "implements Kernels",
    "cuda::CudaKernels": "implements Kernels",
    "bench::CountedKernels": "implements Kernels",
}
# Class of the public API: what its overloads are for. They share a name and a contract, so a reader meets them as one method.
BY_NAME = {
    "KVStore": "each operation takes one key or several, and one array or one for each device, by value, pointer, range or in braces",
    "NDArray": "From takes any notation of the values; operators take an array or a number",
}

TOKEN = re.compile(
    r"""(?P<skip> \s+ | //[^\n]* | /\*.*?\*/ | ^[ \t]*\#(?:[^\n]*\\\n)*[^\n]* )
      | (?P<text> (?:u8|[uUL])?R"(?P<fence>[^(\s]*)\(.*?\)(?P=fence)" | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])+' )
      | (?P<token> \d[\w'.]* | \w+ | :: | -> | \.\.\. | \[\[ | . )""", re.VERBOSE | re.DOTALL | re.MULTILINE)
CLOSES = {"(": ")", "{": "}", "[": "]", "<": ">", "[[": "]"}
# Words with parentheses of their own that are no parameters.
WITH_PARENTHESES = {"alignas", "decltype", "noexcept", "explicit", "requires", "__attribute__"}
NO_METHODS = {"using", "typedef", "friend", "static_assert", "enum", "public", "private", "protected"}


@dataclasses.dataclass
class Class:
    name: str
    line: int
    methods: list

    def count(self):
        return len(set(self.methods) if self.name in BY_NAME else self.methods)


def tokens_of(text):
    """The tokens of C++ and their lines; a literal is one token, '""'."""
    tokens, lines, line = [], [], 1
    for match in TOKEN.finditer(text):
        if match["skip"] is None:
            tokens.append('""' if match["text"] else match[0])
            lines.append(line)
        line += match[0].count("\n")
    return tokens, lines


def after(tokens, i):
    """The index behind the group that opens at i."""
    opens, closes, depth = tokens[i], CLOSES[tokens[i]], 0
    while i < len(tokens):
        if opens == "<" and tokens[i] in ("(", "{", "["):  # a comparison inside is no bracket
            i = after(tokens, i)
            continue
        if tokens[i] == opens or (opens == "[[" and tokens[i] == "["):
            depth += 2 if tokens[i] == "[[" else 1
        elif tokens[i] == closes:
            depth -= 1
            if depth == 0:
                return i + 1
        elif opens == "<" and tokens[i] == ";":
            break
        i += 1
    return i


def is_macro(tokens, i):
    return re.fullmatch(r"[A-Z][A-Z0-9_]+", tokens[i]) and len(tokens[i]) > 3 and tokens[i + 1:i + 2] == ["("]


def class_head(tokens, i):
    """(name, index of the body's brace) of the class whose keyword is at i; None of a declaration without a body."""
    if i and tokens[i - 1] in ("enum", "<", ",", "friend"):
        return None
    name, i = "", i + 1
    while i < len(tokens):
        if tokens[i] == "[[" or (tokens[i] == "<" and name):
            i = after(tokens, i)
        elif tokens[i] in WITH_PARENTHESES or is_macro(tokens, i):
            i = after(tokens, i + 1)
        elif tokens[i] == "::":
            name, i = name + "::", i + 1
        elif re.fullmatch(r"[A-Za-z_]\w*", tokens[i]) and tokens[i] != "final" and (not name or name.endswith("::")):
            name, i = name + tokens[i], i + 1
        else:
            break
    if tokens[i:i + 1] == ["final"]:
        i += 1
    if tokens[i:i + 1] == [":"]:
        while i < len(tokens) and tokens[i] not in ("{", ";", ")"):
            i += 1
    return (name or "(no name)", i) if tokens[i:i + 1] == ["{"] else None


class Members:
    """Reads the members of one class, which is the body tokens[i:end]."""

    def __init__(self, tokens, i, end):
        self.tokens, self.i, self.end = tokens, i, end

    def methods(self):
        while self.i < self.end:
            name = self.member()
            if name:
                yield name

    def member(self):
        """Passes one member; the name of a method that counts, else None."""
        tokens = self.tokens
        if tokens[self.i] in ("public", "private", "protected") and tokens[self.i + 1] == ":":
            self.i += 2
            return None
        if tokens[self.i] == "template":
            self.i = after(tokens, self.i + 1)
            return None  # what follows is the member
        if tokens[self.i] in NO_METHODS:
            self.pass_statement()
            return None
        if tokens[self.i] in ("class", "struct", "union") and class_head(tokens, self.i):
            self.i = after(tokens, class_head(tokens, self.i)[1])
            self.pass_statement()  # what is declared with it
            return None
        return self.declaration()

    def pass_statement(self):
        while self.i < self.end and self.tokens[self.i] != ";":
            braces = self.tokens[self.i] == "{"
            self.i = after(self.tokens, self.i) if self.tokens[self.i] in ("(", "{", "[", "[[") else self.i + 1
            if braces and self.tokens[self.i:self.i + 1] != [";"]:  # a friend's body
                return
        self.i += 1

    def declaration(self):
        """A field or a function: the first parentheses outside templates, attributes and macros are parameters."""
        tokens = self.tokens
        while self.i < self.end:
            token = tokens[self.i]
            if token == ";":
                self.i += 1
                return None
            if token in ("=", "{", ":"):  # a field's value or width
                self.pass_statement()
                return None
            if token == "operator":
                start = self.i
                self.i += 3 if tokens[self.i + 1:self.i + 3] == ["(", ")"] else 2
                while tokens[self.i] != "(":
                    self.i = after(tokens, self.i) if tokens[self.i] == "<" and re.fullmatch(r"\w+", tokens[self.i - 1]) else self.i + 1
                return self.function(" ".join(tokens[start:self.i]))
            if token in WITH_PARENTHESES or is_macro(tokens, self.i):
                self.i = after(tokens, self.i + 1) if tokens[self.i + 1] == "(" else self.i + 1
            elif token == "(":
                if tokens[self.i + 1] in ("*", "&"):  # a pointer to a function
                    self.pass_statement()
                    return None
                return self.function(tokens[self.i - 1])
            else:
                self.i = after(tokens, self.i) if token in ("<", "[", "[[") else self.i + 1
        return None

    def function(self, name):
        """Passes parameters and what follows them; None if the function is defaulted, deleted or made by a macro."""
        tokens = self.tokens
        counts = re.fullmatch(r"[A-Z][A-Z0-9_]+", name) is None or len(name) <= 3
        self.i = after(tokens, self.i)
        initialisers = False
        while self.i < self.end:
            token = tokens[self.i]
            if token == ";":
                self.i += 1
                return name if counts else None
            if token == "=" and tokens[self.i + 1] in ("default", "delete"):
                counts = False
            if token == "{":
                # In a list of initialisers, braces behind a name are its value.
                is_body = not initialisers or not re.fullmatch(r"\w+|>", tokens[self.i - 1])
                self.i = after(tokens, self.i)
                if is_body:
                    return name if counts else None
                continue
            initialisers = initialisers or token == ":"
            self.i = after(tokens, self.i) if token in ("(", "[", "[[") else self.i + 1
        return None


def namespace_head(tokens, i):
    """(name, index of the brace) of the namespace whose keyword is at i; None of an alias or a directive."""
    brace = i + 1
    while re.fullmatch(r"[A-Za-z_]\w*|::", tokens[brace]):
        brace += 1
    return ("".join(tokens[i + 1:brace]), brace) if tokens[brace] == "{" else None


def classes(text):
    """Each class with a body, in order; its name has the namespaces and classes around it, without `sluice`."""
    tokens, lines = tokens_of(text)
    around = []  # (end, name) of what holds the class at hand
    for i, token in enumerate(tokens):
        is_class = token in ("class", "struct", "union")
        head = class_head(tokens, i) if is_class else namespace_head(tokens, i) if token == "namespace" else None
        if head is None:
            continue
        name, brace = head
        end = after(tokens, brace) - 1
        around = [*((last, outer) for last, outer in around if last > i), (end, name)]
        if is_class:
            full = "::".join(part for _, part in around if part and part != "sluice").removeprefix("sluice::")
            yield Class(full, lines[i], list(Members(tokens, brace + 1, end).methods()))


def all_classes(root):
    for folder in CODE:
        for path in sorted(path for suffix in ("h", "cc", "cuh", "cu") for path in (root / folder).rglob(f"*.{suffix}")):
            for found in classes(path.read_text(encoding="utf-8")):
                yield path.relative_to(root), found


def findings(root):
    found, needed = [], set()
    for path, one in all_classes(root):
        if len(one.methods) <= MOST_METHODS:
            continue
        needed.add(one.name)
        if one.count() > MOST_METHODS and one.name not in ALLOWED:
            found.append(f"{path}:{one.line}: {one.name} has {one.count()} methods; at most {MOST_METHODS}: cut it into several")
    for table, names in (("ALLOWED", ALLOWED), ("BY_NAME", BY_NAME)):
        found += [f"tools/check_classes.py: no {name} has more than {MOST_METHODS} methods; take it out of {table}" for name in sorted(set(names) - needed)]
    return found


def main(arguments):
    parser = checks.parser(__doc__)
    parser.add_argument("--largest", action="store_true", help="print the twenty largest classes")
    options = parser.parse_args(arguments)
    if options.largest:
        for path, one in heapq.nlargest(20, all_classes(options.root), key=lambda item: item[1].count()):
            print(f"{one.count():4} {one.name} ({path}:{one.line})")
        return 0
    found = findings(options.root)
    for line in found:
        print(line)
    print(f"check_classes: {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
