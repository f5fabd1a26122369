"""A server program with an update rule of its own, started with tools/launch.py --server-command.

Usage: own_server_test.py BIN_DIR
"""
import math
import os
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from cluster import unwrapped  # noqa: E402
from launch_test import launch  # noqa: E402

BIN = None


def ada_grad(rate, gradients, weight=1.0):
    """The weight after each gradient."""
    squares, weights = 0.0, []
    for gradient in gradients:
        squares += gradient * gradient
        weight -= rate * gradient / math.sqrt(squares)
        weights.append(weight)
    return weights


class OwnServer(unittest.TestCase):
    def launch_own(self, workers, servers, *flags, server_flags=None, extra=()):
        server = " ".join([str(BIN / "own_server"), *(flags if server_flags is None else server_flags)])
        return launch("-n", workers, "-s", servers, *extra, "--server-command", server, BIN / "own_server", *flags)

    def test_the_servers_apply_the_programs_rule(self):
        for workers, servers, rate, extra in ((1, 1, 0.25, ()), (2, 2, 0.25, ()), (3, 2, 0.5, ("--env", "SLUICE_SERVER_THREADS=3"))):
            with self.subTest(workers=workers, servers=servers):
                done = self.launch_own(workers, servers, f"--rate={rate}", extra=extra)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                for key in ("small", "big"):
                    seen = [float(value) for value in re.findall(rf"step \d: {key} starts with (\S+)", done.stdout)]
                    expected = ada_grad(rate, [-2 * scale for scale in (3, 4, 12)])
                    self.assertEqual(len(seen), 3, done.stdout)
                    for value, reference in zip(seen, expected):
                        self.assertAlmostEqual(value, reference, delta=1e-5)
                self.assertIn(f"all values right: dist_sync, {workers} worker{'s' if workers > 1 else ''}\n", done.stdout)

    def test_the_worker_notices_another_rule(self):
        stock = launch("-n", 1, "-s", 1, BIN / "own_server")
        other_rate = self.launch_own(1, 1, "--rate=0.25", server_flags=["--rate=0.5"])
        for done in (stock, other_rate):
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("in place of 1.25", unwrapped(done.stdout))

    def test_an_optimiser_has_no_place_there(self):
        done = launch("-n", 1, "-s", 1, "--server-command", BIN / "own_server", BIN / "train_mnist", "--kv-store=dist_sync",
                      "--num-steps=1", "--num-examples=100")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("a function of its own", unwrapped(done.stdout))

    def test_a_bad_flag_of_the_server(self):
        done = self.launch_own(1, 1, server_flags=["--rat=1"])
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("'--rat=1' (did you mean --rate?)", unwrapped(done.stdout))
        self.assertIn("server 0", done.stderr)


class ServerCommand(unittest.TestCase):
    def refused(self, server_command):
        done = launch("-n", 1, "-s", 2, "--server-command", server_command, BIN / "kv_tour", "--kv-store=dist_sync")
        self.assertNotEqual(done.returncode, 0)
        return done

    def test_no_such_program(self):
        with tempfile.NamedTemporaryFile() as plain:
            for program, words in (("/no/such/server", "does not exist"), (plain.name, "is not executable")):
                with self.subTest(program):
                    done = self.refused(program)
                    self.assertEqual(done.returncode, 2)
                    self.assertIn(f"the server command '{program}' {words}", unwrapped(done.stderr))
                    self.assertEqual(done.stdout, "")

    def test_a_program_that_fails(self):
        done = self.refused("sh -c 'echo no server here; exit 7'")
        self.assertEqual(done.returncode, 7, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"server \d \(pid \d+\) ended with exit code 7")
        self.assertIn("] no server here\n", done.stdout)

    def test_a_program_that_is_no_server(self):
        done = self.refused("true")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(unwrapped(done.stderr), r"server \d ended with exit code 0, but these still run: .*worker 0")


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = folder  # takes the logs that failed jobs leave
        unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
