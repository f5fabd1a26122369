#!/usr/bin/env python3
"""Sums up what CTest ran: the slowest tests, those that were skipped and why, those that failed, and how many there were.

    tools/test_report.py build/release.xml ...

Reads what `ctest --output-junit FILE` writes. Exit codes: 0 all passed; 1 a test failed or none ran; 2 a file cannot be read.
"""
import argparse
import re
import sys
import xml.etree.ElementTree
from dataclasses import dataclass

COLUMNS = 120
SLOWEST = 10
# Python's unittest writes the first; GoogleTest the second, with the reason in the line before.
SKIPPED_BY_UNITTEST = re.compile(r"^(?:.*? )??\.\.\. skipped (['\"])(.*)\1$", re.MULTILINE)
SKIPPED_BY_GTEST = re.compile(r"^(.*)\n+\[  SKIPPED \] ", re.MULTILINE)


@dataclass
class Test:
    name: str
    seconds: float
    failed: bool
    reasons: list  # why it, or parts of it, were skipped


def reasons_of(output):
    reasons = [text for _, text in SKIPPED_BY_UNITTEST.findall(output)]
    reasons += [line.strip() for line in SKIPPED_BY_GTEST.findall(output) if line.strip() and not line.startswith("[")]
    return list(dict.fromkeys(reasons))


def read(path):
    """The tests of a file."""
    tests, suite = [], xml.etree.ElementTree.parse(path).getroot()
    if suite.tag != "testsuite":
        raise ValueError(f"ctest --output-junit has not written it: it begins with <{suite.tag}>, not with <testsuite>")
    for case in suite.iter("testcase"):
        status, skipped, reasons = case.get("status"), case.find("skipped"), reasons_of(case.findtext("system-out") or "")
        is_skipped = skipped is not None and skipped.get("message", "").startswith("SKIP_")  # else its program is missing, say
        tests.append(Test(case.get("name", "?"), float(case.get("time") or 0), status == "fail" or (status == "notrun" and not is_skipped),
                          reasons or (["it does not say why"] if is_skipped else [])))
    return tests


def fitted(before, text):
    """A line of both: the text's middle is left out where it would be too long."""
    room = COLUMNS - len(before)
    if len(text) > room:
        text = text[: room - 3 - room // 2] + "..." + text[-(room // 2):]
    return before + text


def summary(tests):
    """Lines."""
    failed = [test for test in tests if test.failed]
    lines = [f"The {min(SLOWEST, len(tests))} slowest of {len(tests)} tests:"]
    lines += [fitted(f"{test.seconds:8.1f} s  ", test.name) for test in sorted(tests, key=lambda test: -test.seconds)[:SLOWEST]]
    why = {}
    for test in tests:
        for reason in test.reasons:
            why.setdefault(reason, []).append(test.name)
    if why:
        lines.append("Skipped, or parts of them:")
        for reason, names in why.items():
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            lines.append(fitted("  ", f"{names[0]}{more}: {reason}"))
    if failed:
        lines += ["Failed:", *(fitted("  ", test.name) for test in failed)]
    passed = 100 * (len(tests) - len(failed)) // max(1, len(tests))
    return [*lines, f"{passed}% tests passed, {len(failed)} tests failed out of {len(tests)}"], not failed and bool(tests)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="+", metavar="FILE", help="as ctest --output-junit writes it")
    tests = []
    for path in parser.parse_args(arguments).files:
        try:
            tests += read(path)
        except (OSError, ValueError, LookupError, xml.etree.ElementTree.ParseError) as error:  # LookupError: its encoding
            print(f"test_report.py: {path}: {error}", file=sys.stderr)
            return 2
    lines, well = summary(tests)
    print("\n".join(lines))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
