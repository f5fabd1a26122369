"""How processes with arrays and stores end: Ctrl-C, exits, threads, shutdown with work under way."""
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

LIMIT = 60  # seconds
LAUNCH = (sys.executable, "-m", "sluice", "launch")


def script(code, *command):
    return [*command, sys.executable, "-c", f"import numpy, os, signal, sys, threading, time, sluice\n{code}"]


def finished(code, *command):
    return subprocess.run(script(code, *command), capture_output=True, text=True, timeout=LIMIT, check=False)


def await_sleep(process):
    """Returns when the main thread of a process waits for something."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        with open(f"/proc/{process}/task/{process}/stat", encoding="ascii") as file:
            if file.read().rsplit(")", 1)[1].split()[0] == "S":
                return
    raise AssertionError(f"process {process} never waits")


class Interrupts(unittest.TestCase):
    """Ctrl-C in each call that blocks. Worker 1 never comes, or leaves rank 0 waiting."""

    CALLS = {
        "pull": "kv.push('w', numpy.ones(3, numpy.float32)); ready(); kv.pull('w', out=numpy.empty(3, numpy.float32))",
        "wait_to_read": "kv.push('w', numpy.ones(3, numpy.float32)); a = kv.pull('w'); ready(); a.wait_to_read()",
        "asarray": "kv.push('w', numpy.ones(3, numpy.float32)); a = kv.pull('w'); ready(); numpy.asarray(a)",
        "asnumpy": "kv.push('w', numpy.ones(3, numpy.float32)); a = kv.pull('w'); ready(); a.asnumpy()",
        "repr": "kv.push('w', numpy.ones(3, numpy.float32)); a = kv.pull('w'); ready(); repr(a)",
        "pushpull": "ready(); kv.pushpull('w', numpy.ones(3, numpy.float32))",
        "barrier": "ready(); kv.barrier()",
        "agree": "ready(); kv.agree('x')",
        "wait_all": "kv.push('w', numpy.ones(3, numpy.float32)); a = kv.pull('w'); ready(); kv.wait_all()",
    }
    CODE = """
def ready():
    print("ready", os.getpid(), flush=True)
kv = sluice.create("dist_sync")
kv.init("w", numpy.zeros(3, numpy.float32))
if kv.rank == 1:
    time.sleep(3600)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(0)
print("went on", flush=True)
"""

    def test_every_call_that_blocks(self):
        for name, call in self.CALLS.items():
            with self.subTest(name):
                job = subprocess.Popen(script(self.CODE.format(call=call), *LAUNCH, "-n", "2", "-s", "1"), stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True)
                deadline = threading.Timer(LIMIT, job.kill)  # which ends its output
                deadline.start()
                try:
                    line = next(line for line in job.stdout if "ready" in line)
                    process = int(line.split()[-1])
                    await_sleep(process)
                    os.kill(process, signal.SIGINT)
                    self.assertIn("interrupted", next(job.stdout))
                finally:
                    deadline.cancel()
                    job.send_signal(signal.SIGINT)
                    job.communicate(timeout=LIMIT)


class Exits(unittest.TestCase):
    def test_exit_codes(self):
        for code, expected in (("kv = sluice.create('local')", 0), ("sluice.create('local'); sys.exit(3)", 3),
                               ("sluice.create('local'); raise ValueError('x')", 1), ("sluice.create('local'); os._exit(4)", 4)):
            with self.subTest(code):
                self.assertEqual(finished(code).returncode, expected)

    def test_a_job_whose_workers_just_end(self):
        done = finished("kv = sluice.create('dist_sync'); kv.init('w', numpy.zeros(4, numpy.float32)); "
                        "kv.push('w', numpy.ones(4, numpy.float32))", *LAUNCH, "-n", "2", "-s", "1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_an_operation_that_is_given_up(self):
        """The job is told at once, and what ends after Python has ended touches nothing of it."""
        code = ("kv = sluice.create('dist_sync'); kv.init('w', numpy.zeros(4, numpy.float32))\n"
                "if kv.rank == 1: time.sleep(600)\n"
                "try: kv.pushpull('w', numpy.ones(4, numpy.float32))\n"
                "except TimeoutError as error: print(error)\n")
        for _ in range(3):
            done = finished(code, *LAUNCH, "-n", "2", "-s", "1", "--env", "SLUICE_OPERATION_TIMEOUT=2")
            self.assertIn("waiting for worker 1", done.stdout)
            said = " ".join((done.stdout + done.stderr).split())
            self.assertNotIn("SIGSEGV", said)
            self.assertIn("it could not leave the job in good", said)
            self.assertNotEqual(done.returncode, 0)

    def test_shutdown_while_pulls_are_under_way(self):
        code = ("kv = sluice.create('dist_async'); kv.init('w', numpy.zeros(1 << 20, numpy.float32)); kv.set_optimizer(sluice.SGD(0.01))\n"
                "for _ in range(20):\n  kv.push('w', numpy.ones(1 << 20, numpy.float32)); a = kv.pull('w')\n")
        done = finished(code, *LAUNCH, "-n", "2", "-s", "1")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_arrays_that_are_global_at_the_end(self):
        done = finished("a = sluice.ones(1000); b = a.view(); c = numpy.from_dlpack(a); d = a + 1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_server_by_environment(self):
        """What other trackers do: the same script in every role."""
        environment = {**os.environ, "DMLC_ROLE": "server"}
        done = subprocess.run(script("sluice.create('dist_sync'); print('went on')"), env=environment, capture_output=True, text=True,
                              timeout=LIMIT, check=False)
        self.assertNotIn("went on", done.stdout)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("DMLC_", done.stderr)


class Threads(unittest.TestCase):
    def test_threads_push_and_pull_at_once(self):
        code = """
kv = sluice.create("local")
def work(i):
    kv.init(i, numpy.zeros(1000, numpy.float32))
    for step in range(200):
        value = numpy.full(1000, step, numpy.float32)
        kv.push(i, value, copy=step % 2 == 0)
        out = numpy.empty(1000, numpy.float32)
        kv.pull(i, out)
        assert (out == step).all(), out
threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print("done")
"""
        done = finished(code)
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)

    def test_importing_starts_no_thread(self):
        done = finished("print(len(os.listdir('/proc/self/task')), 'torch' in sys.modules)")
        before = subprocess.run([sys.executable, "-c", "import numpy, os; print(len(os.listdir('/proc/self/task')), False)"],
                                capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.stdout, before.stdout)


if __name__ == "__main__":
    unittest.main()
