"""launch.py --launcher ssh on three hosts with the real sshd: what it comes to, how it ends, and that nothing is left.

Usage: ssh_test.py BIN_DIR
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import any_launcher  # noqa: E402
import labs  # noqa: E402
import ssh_lab  # noqa: E402
from any_launcher import NASTY, Jobs  # noqa: E402
from cluster import unwrapped  # noqa: E402
from launch_test import end_of, launch  # noqa: E402

ECHO = "import sys; print(ascii(sys.argv[1:]))"


class OnHosts(Jobs, unittest.TestCase):
    @classmethod
    def make_lab(cls):
        return ssh_lab.SshHosts(cls.hosts, second_rate="20mbit")

    def launch(self, *arguments):
        return self.lab.launch(*arguments)

    # --- Jobs that end well ---

    def test_40_steps_on_three_hosts_come_to_the_parameters_of_one_host(self):
        with tempfile.TemporaryDirectory() as folder:
            flags = ["--network=lenet_avg", "--kv-store=dist_sync", "--num-steps=40", "--num-examples=2000"]
            alone = launch("-n", 3, "-s", 2, "--env", "SLUICE_CPU_THREADS=1", any_launcher.BIN / "train_mnist", *flags, f"--save-params={folder}/one")
            self.assertEqual(alone.returncode, 0, alone.stdout + alone.stderr)
            code, said = self.lab.run("--log-dir", self.log_dir(), "-n", "3", "-s", "2", "--env", "SLUICE_CPU_THREADS=1", any_launcher.BIN / "train_mnist", *flags, f"--save-params={folder}/three")
            self.assertEqual(code, 0, said)
            self.assertEqual(pathlib.Path(folder, "one").read_bytes(), pathlib.Path(folder, "three").read_bytes())
        self.assert_nothing_left()

    def test_variables_travel_or_stay(self):
        value = "a b'\"$HOME;\n\u00fc"
        script = "import os, sys; print(ascii(sys.argv[1:]), ascii([os.environ.get(name) for name in ('NAMED', 'OMP_X', 'NCCL_X', 'LD_LIBRARY_PATH', 'OTHER')]))"
        code, said = self.lab.run("-n", "3", "-s", "1", "--env", f"NAMED={value}", sys.executable, "-c", script, *NASTY,
                                  environment={"OMP_X": value, "NCCL_X": "1", "LD_LIBRARY_PATH": "/x y", "OTHER": "stays"})
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count(f"{ascii(NASTY)} {ascii([value, value, '1', '/x y', None])}"), 3, said)

    def test_the_folder_is_copied_and_is_where_the_job_runs(self):
        with tempfile.TemporaryDirectory() as source, tempfile.TemporaryDirectory() as there:
            target = pathlib.Path(there) / "job folder"
            pathlib.Path(source, "sub").mkdir()
            pathlib.Path(source, "sub", "hello").write_text("copied\n")
            code, said = self.lab.run("-n", "1", "-s", "1", "--sync-dst-dir", target, "sh", "-c", "pwd; cat sub/hello", hosts="h2\n", folder=source)
            self.assertEqual(code, 0, said)
            self.assertIn(f"[worker 0] {target}\n[worker 0] copied\n", said)

    def test_the_interface_that_carries_the_data(self):
        """The second network, or the first where nothing is said: as the hosts' own counters tell."""
        flags = ["--network=mlp", "--kv-store=dist_sync", "--num-steps=20", "--num-examples=2000"]
        for interface, hosts in ((None, "h1\nh2\nh3\n"), ("eth1", "h1\nh2\nh3\n"), ("eth0", "h1 interface=eth1\nh2 interface=eth\nh3 interface=eth1\n")):
            with self.subTest(interface):
                before = {name: sum(self.lab.received(index, name) for index in range(3)) for name in ("eth0", "eth1")}
                code, said = self.lab.run("-n", "3", "-s", "3", "--env", "SLUICE_TRANSPORT=tcp", *(["--env", f"DMLC_INTERFACE={interface}"] if interface == "eth1" else []),
                                          any_launcher.BIN / "train_mnist", *flags, hosts=hosts)
                self.assertEqual(code, 0, said)
                moved = {name: sum(self.lab.received(index, name) for index in range(3)) - count for name, count in before.items()}
                if interface == "eth0":  # by the hostfile: each host has its own
                    self.assertGreater(moved["eth1"], 10e6)
                else:
                    fast, slow = ("eth1", "eth0") if interface == "eth1" else ("eth0", "eth1")
                    self.assertGreater(moved[fast], 10 * moved[slow], moved)

    # --- Jobs that do not ---

    def test_kill_9_of_an_agent(self):
        job = self.start_long()
        self.assertEqual(self.lab.kill_inside(2, "exec(b", signal.SIGKILL), 2)  # both of its processes: the job's own are orphans now
        code, said = end_of(job, 30)
        self.assertNotEqual(code, 0, said)
        self.assertRegex(said, r"launch.py: host h3 was lost: .*; it ran worker 2")

    def test_a_host_that_is_cut_off(self):
        job = self.start_long()
        self.lab.inside(1, "ip", "link", "set", "eth0", "down")
        try:
            code, said = end_of(job, 40)
            self.assertEqual(code, 1, said)
            self.assertRegex(said, r"launch.py: host h2 was lost: ")
            self.assert_nothing_left(15)
        finally:
            self.lab.inside(1, "ip", "link", "set", "eth0", "up")

    def test_hosts_that_cannot_be_reached_are_named_at_once(self):
        started = time.monotonic()
        code, said = self.lab.run("--log-dir", self.log_dir(), "-n", "3", "-s", "1", any_launcher.BIN / "kv_tour", hosts="h1\nh2:2222\nnosuch\n")
        self.assertEqual(code, 1, said)
        self.assertLess(time.monotonic() - started, 30)
        self.assertRegex(said, r"host h2:2222: ssh: connect to host h2 port 2222: Connection refused")
        self.assertRegex(said, r"host nosuch: ssh: Could not resolve hostname nosuch")
        self.assert_nothing_left()

    def test_programs_that_a_host_has_not(self):
        code, said = self.lab.run("--log-dir", self.log_dir(), "-n", "2", "-s", "1", "/no/such program", hosts="h2\nh3\n")
        self.assertEqual(code, 2, said)
        self.assertIn("launch.py: host h2: the command '/no/such program' does not exist", said)
        self.assert_nothing_left()

    def test_who_does_not_join_is_named_with_its_host(self):
        for timeout in ("12", "3"):  # after a line of the wait, and before any
            with self.subTest(timeout):
                self.check_who_is_named(timeout)

    def check_who_is_named(self, timeout):
        code, said = self.lab.run("--log-dir", self.log_dir(), "-n", "3", "-s", "1", "--timeout", timeout, "sh", "-c", f'[ "$DMLC_RANK" = 1 ] && sleep 60; exec {any_launcher.BIN}/kv_tour --kv-store=dist_sync')
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"launch.py: 3 of 4 have joined: server 0, worker 0, worker 2; still missing: worker 1 \(host h2\)")
        self.assertRegex(unwrapped(said), rf"not everybody joined within {timeout} s")
        self.assertRegex(said, r"launch.py: scheduler \(pid \d+\) ended with exit code 1")
        self.assert_nothing_left()

    def test_orphans_of_a_worker_are_no_zombies_for_long(self):
        """The agent is their parent now. (The first process of a host of the lab minds no children: killed agents stay with it.)"""
        script = """import subprocess, time
for _ in range(5):
    subprocess.run(["sh", "-c", "true & exec true"])
end = time.monotonic() + 10
while (zombies := [line for line in subprocess.run(["ps", "-eo", "stat=,ppid=,args="], capture_output=True, text=True).stdout.splitlines() if line.startswith("Z") and line.split()[1] != "1"]) and time.monotonic() < end:
    time.sleep(0.1)
print("zombies:", zombies)
"""
        code, said = self.lab.run("-n", "1", "-s", "1", "/usr/bin/python3", "-c", script, hosts="h2\n")
        self.assertEqual(code, 0, said)
        self.assertIn("[worker 0] zombies: []\n", said)

    def test_an_error_of_several_hosts_is_shown_once(self):
        code, said = self.run_job(self.program("train_mnist"), "--kv-store=dist_sync", "--lr=abc")
        self.assertEqual(code, 2, said)
        self.assertEqual(said.count("flag --lr got 'abc'"), 1, said)
        self.assertRegex(said, r"launch\.py: worker \d \(host h\d, pid \d+\) ended with exit code 2")
        self.assert_nothing_left()

    def test_programs_that_are_missing_here(self):
        for flag, value in (("--ssh", "/no/such/ssh"), ("--sync-dst-dir", str(self.lab.folder / "copy"))):
            with self.subTest(flag):
                command = [sys.executable, ssh_lab.ROOT / "tools" / "launch.py", "-n", "1", "-H", self.lab.hostfile("h2\n"), "--log-dir", self.log_dir(), flag, value, "/bin/true"]
                done = subprocess.run(command, env={"PATH": "/no/such"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30, check=False)
                code, said = done.returncode, re.sub(r"\n  (?=\S)", " ", done.stdout)
                self.assertEqual(code, 1, said)
                self.assertRegex(said, r"host h2: could not start \S+: No such file or directory")
                self.assertNotIn("Traceback", said)

    def test_a_schedulers_name_that_is_known_later(self):
        """As of a service of Kubernetes."""
        place = {"DMLC_NUM_WORKER": "1", "DMLC_NUM_SERVER": "1", "DMLC_PS_ROOT_URI": "later", "DMLC_PS_ROOT_PORT": "9091", "DMLC_USE_KUBERNETES": "1", "SLUICE_JOB_SECRET": "s"}
        commands = {"server": ["sluice_server"], "worker": ["kv_tour", "--kv-store=dist_sync"], "scheduler": ["sluice_scheduler"]}
        processes = {}
        for role, (program, *arguments) in commands.items():
            if role == "scheduler":
                for name in ("server", "worker"):
                    said = unwrapped(processes[name].stdout.readline() + processes[name].stdout.readline())
                    self.assertIn("'later' (DMLC_PS_ROOT_URI)", said)
                self.lab.inside(1, "sh", "-c", "echo 10.77.0.1 later >>/etc/hosts")
            processes[role] = self.lab.hosts.start(0 if role == "scheduler" else 1, [any_launcher.BIN / program, *arguments], env={**os.environ, **place, "DMLC_ROLE": role},
                                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.addCleanup(processes[role].stdout.close)
        for role, process in processes.items():
            code, said = end_of(process, 30)
            self.assertEqual(code, 0, f"{role}: {said}")

    def translate(self, address, index, ways):
        """Packets to the address go to that host; `ways`: over which host others send them."""
        ssh_lab.lab.require(ssh_lab.lab.DELAY_TOOLS)  # iptables: missing, it is an error
        for other, way in ways.items():
            self.lab.inside(other, "ip", "route", "add", f"{address}/32", "via", way)
        for chain in ("PREROUTING", "OUTPUT"):
            self.lab.inside(index, "iptables-legacy", "-t", "nat", "-A", chain, "-d", address, "-j", "DNAT", "--to-destination", f"10.77.0.{index + 1}")
        if address not in self.lab.inside(index, "iptables-legacy", "-t", "nat", "-S"):
            labs.missing("this kernel cannot translate addresses: iptables took no rule of its table 'nat'")

    def test_a_server_behind_nat(self):
        """It listens on its own address, and workers are told the other one."""
        self.translate("198.51.100.2", 1, {1: "10.77.0.3", 2: "10.77.0.2"})
        code, said = self.lab.run("-n", "2", "-s", "1", "--env-server", "DMLC_NODE_HOST=198.51.100.2", "--env", "PS_VERBOSE=1", "--env", "SLUICE_TRANSPORT=tcp",
                                  any_launcher.BIN / "kv_tour", "--kv-store=dist_sync", hosts="h2\nh3\n")
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"shard 0 at tcp://0.0.0.0:\d+: DMLC_NODE_HOST is 198.51.100.2, none of this machine's")
        self.assertRegex(said, r"\[worker \d\].* tcp://198.51.100.2:\d+")

    def test_an_address_that_leads_here(self):
        """As behind NAT: hosts are told another one than this machine has."""
        self.translate("198.51.100.1", 0, {1: "10.77.0.1", 2: "10.77.0.1"})
        code, said = self.lab.run("-n", "2", "-s", "2", "--host-ip", "198.51.100.1", any_launcher.BIN / "kv_tour", "--kv-store=dist_sync", hosts="h2\nh3\n")
        self.assertEqual(code, 0, said)
        self.assertIn("198.51.100.1 is none of this machine's addresses", said)


class OverIpv6(unittest.TestCase):
    def test_hosts_by_ipv6_and_one_by_ipv4(self):
        with labs.or_skip(lambda: ssh_lab.SshHosts(3, ipv6=True)) as hosts:
            for names in ("[fd77::2]:22\nfd77::3\n", "h2\nfd77::3\n", "fd77::3\nh2\n"):
                with self.subTest(names):
                    code, said = hosts.run("-n", "2", "-s", "2", "--env", "PS_VERBOSE=1", any_launcher.BIN / "kv_tour", "--kv-store=dist_sync", hosts=names)
                    self.assertEqual(code, 0, said)
                    self.assertIn("tcp://[fd77::3]:", said)


class OtherShells(unittest.TestCase):
    def test_login_shells_that_are_not_bash(self):
        for shell in ("/bin/dash", "/usr/bin/tcsh", "/usr/bin/fish", "/bin/ksh", "/bin/zsh"):
            if not os.path.exists(shell):
                continue
            with self.subTest(shell), labs.or_skip(lambda: ssh_lab.SshHosts(2, shell=shell)) as hosts:  # noqa: B023 used at once
                code, said = hosts.run("-n", "1", "-s", "1", sys.executable, "-c", ECHO, *NASTY, hosts="h2\n")
                self.assertEqual(code, 0, said)
                self.assertIn(ascii(NASTY), said)

    def test_an_sshd_that_refuses_bursts(self):
        """MaxStartups: of what is above one unauthenticated connection, all are refused."""
        with labs.or_skip(lambda: ssh_lab.SshHosts(2, more="MaxStartups 1:100:1")) as hosts:
            names = "h2 user=root\n" + "".join(f"127.0.0.{i}\n" for i in range(1, 5))
            code, said = hosts.run("-n", "5", "-s", "1", sys.executable, "-c", "print('here')", hosts=names)
            self.assertEqual(code, 0, said)
            self.assertEqual(said.count("] here\n"), 5, said)


if __name__ == "__main__":
    any_launcher.BIN = pathlib.Path(sys.argv[1]).resolve()
    labs.move_to_a_tmp_of_ones_own(any_launcher.BIN)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
