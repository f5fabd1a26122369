"""What test_forks.py runs in the workers of a job."""
import os
import sys
import threading
import time

import numpy
import sluice

SIZE = 10_000
PATIENCE = 30.0  # seconds for a child that hangs


def refused(call):
    """Whether the call raises what a forked child is told."""
    try:
        call()
    except RuntimeError as error:
        return "forkserver" in str(error)
    return False


def child(kv, rest, number):
    """Reads an array that is at rest, is refused all else, and ends as children do."""
    right = (rest.asnumpy() == numpy.arange(SIZE)).all() and (numpy.asarray(rest.view()) == numpy.arange(SIZE)).all()
    out = numpy.empty(SIZE, numpy.float32)
    for call in (lambda: kv.push(0, out), lambda: kv.pull(0, out=out), lambda: kv.barrier(), lambda: rest + 1, lambda: sluice.ones(4),
                 lambda: kv.wait_all(), lambda: sluice.create("dist_async")):
        right = right and refused(call)
    if not right:
        os._exit(9)
    if number % 3 == 0:
        os._exit(0)
    if number % 3 == 1:
        sys.exit(0)  # the interpreter's shutdown, with the store and arrays
    raise ValueError("of a child")  # which is not the worker's failure


def code_of(pid):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended == pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.0005)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return "hung"


def forks(count):
    """Forks `count` children while another thread pushes and pulls; returns how they ended, and what the store holds after."""
    kv = sluice.create("dist_async")
    kv.set_optimizer(sluice.SGD(1.0, wd=0.0))
    kv.init([0, 1], [numpy.zeros(SIZE, numpy.float32)] * 2)
    rest = sluice.array(numpy.arange(SIZE, dtype=numpy.float32))
    rest.wait_to_read()
    stops = threading.Event()
    pushed = 0

    def load():
        nonlocal pushed
        while not stops.is_set():
            kv.pushpull(kv.rank, numpy.ones(SIZE, numpy.float32))
            pushed += 1

    thread = threading.Thread(target=load)
    thread.start()
    codes = []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            if number % 3 == 2:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the traceback
            child(kv, rest, number)
        codes.append(code_of(pid))
    stops.set()
    thread.join()
    kv.wait_all()
    held = kv.pull(kv.rank).asnumpy()
    kv.barrier()
    return [codes.count(0), codes.count(1), [code for code in codes if code not in (0, 1)], float(held[0]), float(held[-1]), pushed]


def terminated():
    """Returns how a child that a program ends by SIGTERM has ended."""
    kv = sluice.create("dist_sync")
    kv.init("w", numpy.zeros(3, numpy.float32))
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
        os._exit(0)
    os.kill(pid, 15)
    code = code_of(pid)
    kv.barrier()
    return code


def loaded(method):
    """Trains with a DataLoader whose workers are made by `method`, beside a store; returns the sum of what was loaded."""
    import torch.utils.data
    kv = sluice.create("dist_sync")
    kv.init("w", numpy.zeros(4, numpy.float32))
    loader = torch.utils.data.DataLoader(Rows(method == "fork"), batch_size=8, num_workers=2, multiprocessing_context=method)
    total = 0.0
    for _ in range(3):
        for batch in loader:
            total += float(kv.pushpull("w", batch.sum(0).numpy())[0])
    return total


class Rows:
    """64 rows; in an array of Sluice, or in one of NumPy, which may be pickled."""

    def __init__(self, in_sluice):
        values = numpy.ones((64, 4), numpy.float32)
        self.values = sluice.array(values) if in_sluice else values
        if in_sluice:
            self.values.wait_to_read()

    def __len__(self):
        return 64

    def __getitem__(self, i):
        return numpy.asarray(self.values)[i].copy()
