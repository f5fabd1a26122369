"""Runs the job of its arguments: how a temporary folder of logs is called, a descriptor for what the guard is to do should this
process be killed, one that the guard holds open while it lives, then the arguments of launch.py."""
import os
import pathlib
import sys

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    from launcher import command_line, guard, limits
    from launcher.lifeline import Lifeline

    logs_name, to_guard, life, *rest = sys.argv[1:]
    os.set_inheritable(int(to_guard), False)
    os.set_inheritable(int(life), False)
    sys.exit(limits.within(lambda: command_line.main(rest, logs_name, guard.GuardRequests(int(to_guard)), Lifeline(int(life)))))
