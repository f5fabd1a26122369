"""Ends the process where Python is too old for launch.py. Imported before the rest of the package, which an older one cannot read;
this file, launch.py and agent.py keep to what Python 3.6 reads (tests/tools/test_python_version.py)."""
import socket
import sys
import textwrap

NEEDED = (3, 9)


def text_of(version):
    return ".".join(str(number) for number in version[:3])


if tuple(sys.version_info[:2]) < NEEDED:
    sys.stderr.write(textwrap.fill(
        "launch.py: Python {} or later is needed here and on every host, and {} of host {} is Python {}; put a newer python3 before it on "
        "that host's PATH, or name one: python3.11 launch.py ...".format(text_of(NEEDED), sys.executable or "python3", socket.gethostname(), text_of(sys.version_info)),
        80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) + "\n")
    sys.exit(2)
