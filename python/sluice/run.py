"""run(): a job of several processes on this machine, from a notebook, a test or a program."""
import multiprocessing.spawn
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
from typing import Any, Callable, Mapping, Optional, Sequence

from . import cli
from .errors import DeadlineExceeded, Error, Unavailable

PATIENCE = 10.0  # seconds in which a job that is asked to end does
IMPORTING = "SLUICE_RUN_IMPORTING"  # is in a worker's environment while it imports the program


def run(fn: Callable[..., Any], args: Sequence[Any] = (), workers: int = 2, servers: int = 1,
        env: Optional[Mapping[str, str]] = None, timeout: Optional[float] = None) -> list[Any]:
    """Starts a scheduler, `servers` servers and `workers` workers, which call fn(*args), and returns their results by rank.

    `fn`, its arguments and results travel by pickle, as with multiprocessing's spawn: `fn` is a function that a module
    defines by name. If a worker raises an exception, run() raises it, with the worker's traceback as its cause. After
    `timeout` seconds the job is ended and DeadlineExceeded raised.
    """
    if IMPORTING in os.environ:
        raise Error("sluice.run was called while a worker of sluice.run imports this program: put the call under "
                    "`if __name__ == \"__main__\":`, since each worker imports the program to find the function")
    with tempfile.TemporaryDirectory(prefix="sluice-run-") as name:
        folder = pathlib.Path(name)
        preparation = multiprocessing.spawn.get_preparation_data("sluice worker")
        preparation.pop("authkey", None)  # is not for files
        (folder / "task").write_bytes(pickle.dumps((preparation, pickle.dumps((fn, tuple(args))))))
        command = [sys.executable, str(cli.launcher()), "-n", str(workers), "-s", str(servers), sys.executable, "-m", "sluice.run_worker", name]
        environment = {**os.environ, **(env or {})}
        environment["PYTHONPATH"] = os.pathsep.join([str(pathlib.Path(__file__).absolute().parents[1]), *filter(None, [environment.get("PYTHONPATH")])])
        with subprocess.Popen(command, env=environment) as job:
            try:
                code = job.wait(timeout)
            except subprocess.TimeoutExpired as error:
                _end(job)
                raise DeadlineExceeded(f"the job of {workers} workers is not done after {timeout:g} s") from error
            except BaseException:
                _end(job)
                raise
        return _results(folder, workers, code)


def _end(job: "subprocess.Popen[bytes]") -> None:
    job.send_signal(signal.SIGINT)
    try:
        job.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        job.kill()


def _results(folder: pathlib.Path, workers: int, code: int) -> list[Any]:
    outcomes = {}
    for rank in range(workers):
        path = folder / str(rank)
        if path.exists():
            outcomes[rank] = pickle.loads(path.read_bytes())
    # A worker whose job has ended is not the one to blame.
    failures = sorted((isinstance(value, Error), isinstance(value, Unavailable), rank)
                      for rank, (kind, value, _) in outcomes.items() if kind == "raised")
    if failures:
        rank = failures[0][-1]
        _, error, trace = outcomes[rank]
        raise error from Error(f"worker {rank} raised this:\n{trace}")
    if code != 0 or len(outcomes) < workers:
        raise Error(f"the job has failed with exit code {code}; standard error says why")
    return [outcomes[rank][1] for rank in range(workers)]

