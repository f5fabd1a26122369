"""What a worker of sluice.run does: calls the function that FOLDER/task has, and writes what comes of it to FOLDER/RANK.

Usage: python -m sluice.run_worker FOLDER
"""
import multiprocessing.spawn
import os
import pathlib
import pickle
import sys
import traceback
from typing import Any

from . import process
from .errors import Error
from .run import IMPORTING


def _work(folder: pathlib.Path) -> None:
    preparation, task = pickle.loads((folder / "task").read_bytes())
    os.environ[IMPORTING] = "1"
    try:
        multiprocessing.spawn.prepare(preparation)
    finally:
        del os.environ[IMPORTING]
    path = folder / str(process.rank())
    try:
        fn, args = pickle.loads(task)
        _write(path, ("returned", fn(*args), ""))
    except Exception as error:
        _write(path, ("raised", error, traceback.format_exc()))
        raise


def _write(path: pathlib.Path, outcome: tuple[str, Any, str]) -> None:
    try:
        data = pickle.dumps(outcome)
        pickle.loads(data)
    except Exception as error:
        if outcome[0] == "returned":
            raise
        data = pickle.dumps(("raised", Error(f"{type(outcome[1]).__name__}: {outcome[1]}"), f"{outcome[2]}\n(it has no pickle: {error})"))
    path.with_suffix(".part").write_bytes(data)
    path.with_suffix(".part").rename(path)


if __name__ == "__main__":
    _work(pathlib.Path(sys.argv[1]))
