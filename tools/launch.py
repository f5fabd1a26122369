#!/usr/bin/env python3
"""Starts a Sluice job: a scheduler, servers and workers. docs/launching.md."""
import os
import signal
import sys

if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # a question that comes before there is a job to ask
    sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out
    try:
        from launcher import python_version  # noqa: F401 before anything else
        from launcher import guard
        sys.exit(guard.main(sys.argv[1:]))
    except KeyboardInterrupt:  # before anything was started
        sys.exit(130)
