#!/usr/bin/env python3
"""Starts a Sluice job: a scheduler, servers and workers. docs/launching.md."""
import signal
import sys

if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # a question that comes before there is a job to ask
    try:
        from launcher import guard
        sys.exit(guard.main(sys.argv[1:]))
    except KeyboardInterrupt:  # before anything was started
        sys.exit(130)
