"""Runs the job of its arguments: how a temporary folder of logs is called, then those of launch.py. Its standard input is a pipe that the guard holds open while it lives."""
import pathlib
import sys

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    from launcher import command_line
    sys.exit(command_line.main(sys.argv[2:], sys.argv[1]))
