"""Runs the job of its arguments: how a temporary folder of logs is called, a descriptor for what the guard is to do should this
process be killed, then the arguments of launch.py. Its standard input is a pipe that the guard holds open while it lives."""
import os
import pathlib
import sys

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    from launcher import command_line, guard

    logs_name, to_guard, *rest = sys.argv[1:]
    os.set_inheritable(int(to_guard), False)
    sys.exit(command_line.main(rest, logs_name, guard.Wishes(int(to_guard))))
