#!/usr/bin/env python3
"""Starts a Sluice job: a scheduler, servers and workers. docs/launching.md."""
import sys

from launcher import command_line

if __name__ == "__main__":
    try:
        sys.exit(command_line.main(sys.argv[1:]))
    except KeyboardInterrupt:  # before anything was started
        sys.exit(130)
