"""tools/launch.py as its users meet it: output, exit codes, signals, and nothing left behind.

Usage: launch_test.py BIN_DIR
"""
import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from cluster import unwrapped  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAUNCH = [sys.executable, str(ROOT / "tools" / "launch.py")]
BIN = None
LONG = ["--network=mlp", "--kv-store=dist_sync", "--num-epochs=1000", "--disp-batches=5"]


def launch(*arguments, timeout=120):
    return subprocess.run([*LAUNCH, *map(str, arguments)], capture_output=True, text=True, timeout=timeout)


def command_of(pid):
    """Its arguments, or none once it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    except OSError:
        return []


def carrying(marker):
    """Processes whose environment holds the marker."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if marker.encode() in (entry / "environ").read_bytes() and (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def start_job(case, *arguments, **options):
    """A job of launch.py with one stream of output; it does not outlive the test."""
    job = subprocess.Popen([*LAUNCH, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    case.addCleanup(job.stdout.close)
    case.addCleanup(job.wait)
    case.addCleanup(job.kill)
    return job


def end_of(job, seconds=60):
    """(exit code, the rest of its output in long lines)"""
    said = job.communicate(timeout=seconds)[0]
    return job.returncode, re.sub(r"\n  (?=\S)", " ", said)


def kill_runner(job, number):
    runner, = (int(pid) for pid in subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True, text=True, check=True).stdout.split())
    os.kill(runner, number)


def end_launch(job, which, number):
    """`which` of launch.py's two processes: "launch", which the user started, or "runner"."""
    if which == "launch":
        job.send_signal(number)
    else:
        kill_runner(job, number)


def await_that(case, condition, why="", seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        case.assertLess(time.monotonic(), end, why)
        time.sleep(0.02)


def free_ports(count):
    """The first of so many, one after another, on which nobody listens."""
    starts = range(20000, 32000, count)
    for first in random.sample(starts, len(starts)):  # a test beside this one asks, too
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
        return first
    raise AssertionError("no ports are free")


class Launch(unittest.TestCase):
    def start_long(self, marker):
        job = subprocess.Popen([*LAUNCH, "-n", "2", "-s", "2", "--env", f"LAUNCH_TEST={marker}", str(BIN / "train_mnist"), *LONG],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(job.stdout.close)
        for line in job.stdout:
            if "batch" in line:
                return job
        self.fail("the job ended before it trained")

    def assert_gone(self, marker, seconds=10):
        end = time.monotonic() + seconds
        while carrying(f"LAUNCH_TEST={marker}"):
            self.assertLess(time.monotonic(), end, "processes of the job are left")
            time.sleep(0.1)

    def test_a_table_of_rows_is_trained_by_workers_and_servers(self):
        done = launch("-n", 2, "-s", 2, BIN / "embedding_table", "--kv-store=dist_sync", "--rows=10000000", "--columns=8", "--ids=2000", "--num-steps=10")
        self.assertEqual(done.returncode, 0, done.stderr)
        losses = [float(loss) for loss in re.findall(r"loss (\S+)", done.stdout)]
        self.assertLess(losses[-1], losses[0] * 0.7)

    def test_a_batch_of_many_rows_is_trained_alike_over_every_transport(self):
        """Once a frame of it was more than a server took: over TCP the job waited for ever."""
        arguments = ["--rows=2000000", "--columns=64", "--ids=900000", "--num-steps=2"]
        alone = subprocess.run([BIN / "embedding_table", *arguments], capture_output=True, text=True, timeout=120)
        losses = re.findall(r"loss (\S+)", alone.stdout)
        self.assertEqual(len(losses), 2, alone.stderr)
        self.assertLess(float(losses[1]), float(losses[0]) * 0.7)
        for transport in ("tcp", "shm"):
            with self.subTest(transport=transport):
                done = launch("-n", 1, "-s", 1, "--env", f"SLUICE_TRANSPORT={transport}", BIN / "embedding_table", "--kv-store=dist_sync", *arguments)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertEqual(re.findall(r"loss (\S+)", done.stdout), losses)

    def test_a_job_runs_through_and_says_who_says_what(self):
        done = launch("-n", 2, "-s", 2, BIN / "kv_tour", "--kv-store=dist_sync")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("[worker 0] the tour is over: dist_sync, 2 workers", done.stdout)

    def test_every_store_type_on_several_shapes_of_jobs(self):
        for kind in ("dist_sync", "dist_device_sync"):
            for workers, servers in ((1, 1), (3, 2)):
                with self.subTest(kind=kind, workers=workers):
                    done = launch("-n", workers, "-s", servers, "--env-server", "SLUICE_SERVER_THREADS=2", "--env", "SLUICE_SERVER_THREADS=2",
                                  BIN / "kv_tour", f"--kv-store={kind}")
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_dropped_messages_change_nothing(self):
        done = launch("-n", 3, "-s", 2, "--env", "PS_DROP_MSG=10", "--env", "PS_RESEND_TIMEOUT=100", BIN / "kv_tour", "--kv-store=dist_sync")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_servers_take_the_ports_that_were_named_for_a_firewall(self):
        first = free_ports(4)
        arguments = ("-n", 1, "-s", 2, "--server-port", first, "--env", "SLUICE_SERVER_THREADS=2", "--env", "PS_VERBOSE=1", "--env", "SLUICE_TRANSPORT=tcp",
                     BIN / "kv_tour", "--kv-store=dist_sync")
        done = launch(*arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        said = unwrapped(done.stdout)
        where = {(server, port - first) for server, port in ((int(server), int(port)) for server, port in re.findall(r"server (\d) has shard \d at tcp://127\.0\.0\.1:(\d+)", said))}
        self.assertEqual(where, {(0, 0), (0, 1), (1, 2), (1, 3)}, said)
        with socket.create_server(("127.0.0.1", first + 3)):
            done = launch(*arguments)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(f"cannot listen on tcp://127.0.0.1:{first + 3}: it is in use; SLUICE_SERVER_PORT, or --server-port of tools/launch.py (installed: sluice_launch), chooses other ports", unwrapped(done.stdout))

    def test_ports_beyond_the_last(self):
        arguments = ("-n", 1, "-s", 2, "--env", "SLUICE_SERVER_THREADS=1", BIN / "kv_tour", "--kv-store=dist_sync")
        done = launch("--server-port", 65535, *arguments)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(unwrapped(done.stderr).strip(), "launch.py: --server-port is 65535, and the 2 servers of a host take 2 ports from there on; the last port is 65535: "
                                                         "choose 65534 or less")
        done = launch("--env-server", "SLUICE_SERVER_PORT=65535", *arguments)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("SLUICE_SERVER_PORT is 65535, so that server 1 of this host with 1 thread has the ports 65536 to 65536", unwrapped(done.stdout))

    def test_the_exit_code_and_last_words_of_the_first_failure(self):
        done = launch("-n", 2, "-s", 1, BIN / "train_mnist", "--kv-store=dist_sync", "--lr=nan")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("ended with exit code 2", done.stderr)
        self.assertIn("] train_mnist: error: flag --lr", done.stdout)

    def test_a_server_that_fails_by_itself_is_blamed_and_not_the_workers_it_took_along(self):
        # The worker sees the job fail and ends with 1, as Sluice's programs do then.
        done = launch("-n", 1, "-s", 1, "--server-command", "sh -c 'exit 5'", "/bin/sh", "-c", "read never < /dev/null; exit 1")
        self.assertEqual(done.returncode, 5, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"server 0 \(pid \d+\) ended with exit code 5; it printed\s+nothing\n")

    def test_ctrl_c_while_python_starts(self):
        for _ in range(3):
            job = subprocess.Popen([*LAUNCH, "-n", "1", "-s", "1", str(BIN / "train_mnist"), *LONG], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
            job.stdout.readline()  # something runs
            job.send_signal(signal.SIGINT)
            self.assertNotIn("Traceback", job.stdout.read())
            self.assertEqual(job.wait(20), 130)

    def test_wrong_use(self):
        for arguments, word in ((["-n", "1"], "no command"), (["-n", "0", "x"], "-n is 0"), (["-n", "1", "/no/such/program"], "does not exist"),
                                (["-n", "1", "-H", "/no/hosts", "x"], "--hostfile /no/hosts"), (["-n", "1", "--env", "NO_SUCH_VARIABLE", "x"], "NO_SUCH_VARIABLE, which is not set here"),
                                (["-n", "1", "--env", "=a", "x"], "NAME=VALUE"), (["-n", "1", "--port", "70000", "x"], "--port is 70000"), (["-n", "1", "--server-port", "0", "x"], "--server-port is 0; it must be at least 1"),
                                (["-n", "1", "--agent-port", "9000", "x"], "--agent-port means nothing to --launcher local"), (["-n", "1", "--timeout", "0", "x"], "--timeout is 0"),
                                (["-n", "1", "--launcher", "ssh", "x"], "-H FILE"), (["-n", "1", "--worker-memory", "4x", "x"], "--worker-memory is '4x'"),
                                (["-n", "1", "--worker-memory", "4g", "x"], "local cannot"), (["-n", "1", "--sync-dst-dir", "d", "x"], "--sync-dst-dir means nothing"),
                                (["-n", "1", "--env-worker", "SLUICE_JOB_ID=a", "x"], "SLUICE_JOB_ID"),
                                ([], "-n/--num-workers"), (["-n", "two", "x"], "'two'"), (["-n", "1", "--nosuch", "x"], "--nosuch"),
                                (["-n", "1", "--launcher", "nosuch", "x"], "'nosuch'"), (["-n", "1", "--server-command", "", "x"], "--server-command is empty"),
                                (["-n", "1", "--server-command", "'x", "x"], "No closing quotation"), (["-n", "1", "--launcher", "ssh", "--ssh", "ssh 'x", "x"], "--ssh is"),
                                (["-n", "1", "--timeout", "100000", "x"], "--timeout is 100000"), (["-n", "1", str(ROOT)], "is a folder"),
                                (["-n", "1", ""], "does not exist"), (["-n", "1", "--log-dir", "/proc/x", str(BIN / "kv_tour")], "--log-dir /proc/x")):
            with self.subTest(arguments):
                done = launch(*arguments)
                self.assertEqual(done.returncode, 2)
                self.assertIn(word, " ".join(done.stderr.split()))
                self.assertRegex(done.stderr, r"\Alaunch.py: .*\n(  .*\n){0,2}\Z")

    def test_arguments_arrive_unchanged(self):
        nasty = ["a b", "quo'te", 'dou"ble', "$HOME", ";ls", "line\nbreak", "\u00fc\u4e2d"]
        script = "import sys; print(ascii(sys.argv[1:]))"
        done = launch("-n", 1, "-s", 1, "--env", f"PATH={BIN}:{os.environ['PATH']}", sys.executable, "-c", script, *nasty, timeout=60)
        self.assertIn(ascii(nasty), done.stdout)

    def test_a_worker_may_go_on_after_the_job(self):
        # Longer than scheduler and servers get to end.
        done = launch("-n", 2, "-s", 1, "--env", f"PATH={BIN}:{os.environ['PATH']}", "sh", "-c",
                      '"$0" --kv-store=dist_sync && sleep 16 && echo "done at last"', BIN / "kv_tour", timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("done at last"), 2)

    def test_sigusr1_at_any_moment_ends_nothing(self):
        for _ in range(5):
            job = subprocess.Popen([*LAUNCH, "-n", "2", "-s", "2", "--env", "PS_VERBOSE=1", str(BIN / "kv_tour"), "--kv-store=dist_sync"],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            said = job.stdout.readline()  # the scheduler's line; the servers are still to come
            while True:
                job.send_signal(signal.SIGUSR1)
                try:
                    said += job.communicate(timeout=0.005)[0]
                    break
                except subprocess.TimeoutExpired:
                    pass
            self.assertEqual(job.returncode, 0, said)

    def test_sigusr1_asks_and_ends_nothing(self):
        job = self.start_long("usr1")
        job.send_signal(signal.SIGUSR1)
        said = ""
        for line in job.stdout:
            said += line
            if "state of the scheduler" in said and "state of the server" in said:
                break
        self.assertIsNone(job.poll(), said)
        job.send_signal(signal.SIGINT)
        job.stdout.read()
        self.assertEqual(job.wait(20), 130)

    def test_a_scheduler_that_dies_before_all_have_joined_and_a_worker_that_minds_no_sigterm(self):
        marker = f"scheduler-{os.getpid()}"
        job = start_job(self, "-n", 1, "-s", 1, "--env", f"PATH={BIN}:{os.environ['PATH']}", "--env", "PS_VERBOSE=1", "--env", f"LAUNCH_TEST={marker}",
                        "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
        for line in job.stdout:
            if "server 0" in line and "joined" in line:
                break
        for pid in carrying(f"LAUNCH_TEST={marker}"):
            if b"sluice_scheduler" in b" ".join(command_of(pid)):
                os.kill(pid, signal.SIGKILL)
        code, said = end_of(job, 30)
        self.assertEqual(code, 137, said)
        self.assertRegex(said, r"scheduler \(pid \d+\) ended with signal SIGKILL")
        self.assertIn("1 of 2 have joined: server 0; still missing: worker 0", said)

    def test_output_that_cannot_be_written_is_in_the_logs(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([*LAUNCH, "-n", "1", "-s", "1", BIN / "kv_tour", "--kv-store=dist_sync"], stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=60)
        words = " ".join(done.stderr.split())
        self.assertIn("not all output could be written; the logs are in ", words)
        logs = pathlib.Path(words.rsplit(" ", 1)[1])
        self.addCleanup(shutil.rmtree, logs)
        self.assertTrue((logs / "worker-0.log").read_text())

    def test_ctrl_c_stops_everything(self):
        job = self.start_long("ctrl-c")
        job.send_signal(signal.SIGINT)
        job.stdout.read()
        self.assertEqual(job.wait(20), 130)
        self.assert_gone("ctrl-c")

    def test_kill_9_of_the_launcher_leaves_nothing(self):
        job = self.start_long("kill-9")
        self.assertGreaterEqual(len(carrying("LAUNCH_TEST=kill-9")), 5)
        job.kill()
        job.wait(10)
        self.assert_gone("kill-9")

    def test_the_secret_is_on_no_command_line(self):
        job = self.start_long("secret")
        for pid in carrying("LAUNCH_TEST=secret"):
            try:
                environment = dict(part.split(b"=", 1) for part in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if b"=" in part)
                secret = environment.get(b"SLUICE_JOB_SECRET", b"")
            except OSError:
                continue
            if not secret:
                continue
            self.assertGreaterEqual(len(secret), 32)
            for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.assertNotIn(secret, entry.read_bytes())
                except OSError:
                    continue
        job.send_signal(signal.SIGTERM)
        job.stdout.read()
        self.assertEqual(job.wait(20), 143)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
