#!/usr/bin/env python3
"""Writes the King James Bible as train.txt, valid.txt and test.txt, a verse a line, for word_lm and model_parallel_lstm.

    sudo apt-get install bible-kjv
    tools/get_kjv.py --out data/kjv

The text is that of Debian's program `bible`. Words are in lower case; each of . , : ; ? ! ( ) is a word of its own, as in the
files of the Penn Treebank. Of each 20 verses one goes to the validation set and one to the test set.
Exit codes: 0 the files are there; 1 the text could not be had; 2 wrong arguments.
"""
import argparse
import pathlib
import re
import subprocess
import sys

VERSES = 31_102
SETS = {"train": range(18), "valid": range(18, 19), "test": range(19, 20)}  # the numbers of its verses, modulo 20


def verses():
    """The verses in their order. Raises OSError or ValueError, which says what is wrong."""
    try:
        done = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60)
    except FileNotFoundError:
        raise ValueError("there is no program 'bible'; Debian's package bible-kjv has it") from None
    except subprocess.TimeoutExpired:
        raise ValueError("the program 'bible' did not end within 60 s") from None
    found = [line.partition(" ")[2] for line in done.stdout.splitlines() if re.match(r"\w+:\d+ ", line)]
    if done.returncode != 0 or len(found) != VERSES:
        raise ValueError(f"the program 'bible' ended with {done.returncode} and gave {len(found)} verses, not {VERSES}: "
                         f"{done.stderr.strip()[:200]}")
    return found


def words(verse):
    return " ".join(re.sub(r"([.,:;?!()])", r" \1 ", verse.lower()).split())


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", required=True, type=pathlib.Path, help="folder for the three files; made when missing")
    options = parser.parse_args(arguments)
    try:
        lines = [words(verse) for verse in verses()]
        options.out.mkdir(parents=True, exist_ok=True)
        for name, numbers in SETS.items():
            of_set = [line for i, line in enumerate(lines) if i % 20 in numbers]
            temporary = options.out / f".{name}.txt.part"
            temporary.write_text("\n".join(of_set) + "\n", encoding="utf-8")
            temporary.replace(options.out / f"{name}.txt")
            print(f"{options.out / name}.txt: {len(of_set)} verses, {sum(len(line.split()) for line in of_set)} words")
    except (OSError, ValueError) as error:
        print(f"get_kjv.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
