"""What launch.py says itself, on standard error."""
import sys
import textwrap

COLUMNS = 80


def say(text):
    """In lines that fit a terminal; names of files and programs stay whole. Nobody may be reading: the job goes on."""
    lines = textwrap.fill(f"launch.py: {text}", COLUMNS, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    try:
        print(lines, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass
