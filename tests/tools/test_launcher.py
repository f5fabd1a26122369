"""What tools/launcher works out before anything runs: hostfiles, places, order, variables, addresses, dry runs."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from launcher import addresses, command_line, environment, hostfile, placement  # noqa: E402
from launcher.errors import UsageError  # noqa: E402
from launcher.job import Job, Resources  # noqa: E402
from launcher.launchers import base  # noqa: E402
from launcher.launchers.base import Options  # noqa: E402
from launcher.launchers.kubernetes import Kubernetes  # noqa: E402
from launcher.launchers.local import Local  # noqa: E402
from launcher.launchers.mpi import Mpi  # noqa: E402
from launcher.launchers import sge  # noqa: E402
from launcher.launchers.sge import Sge  # noqa: E402
from launcher.launchers.slurm import Slurm  # noqa: E402
from launcher.launchers.ssh import Ssh  # noqa: E402
from launcher.version import VERSION  # noqa: E402


class Hostfile(unittest.TestCase):
    def test_lines(self):
        hosts = hostfile.parse("# all\n\nh1\nh2:2222 slots=2  # two\n[fe80::1]:22 user=u interface=eth1\n::1 slots=3\n", "f")
        self.assertEqual(hosts, [hostfile.HostLine("h1"), hostfile.HostLine("h2", 2222, 2), hostfile.HostLine("fe80::1", 22, 1, "u", "eth1"), hostfile.HostLine("::1", None, 3)])
        self.assertEqual(hosts[2].target(), "u@fe80::1")

    def test_errors_name_the_line(self):
        for text, line, why in (("h1\nh2 slots=0\n", 2, "slots is '0'"), ("h1 slots=x", 1, "slots is 'x'"), ("h1:0", 1, "'0' is no port"), ("h1:99999", 1, "no port"),
                                ("a\n\nb cores=3", 3, "none of slots=N"), ("a\nb\na slots=2", 3, "in line 1"), ("h slots=1 slots=2", 1, "said twice"),
                                ("u@h", 1, "user=U"), ("-oProxyCommand=x", 1, "no host"), ("h user=-l", 1, "no user"), ("[::1", 1, "[address]:port"), ("h slots=", 1, "none of")):
            with self.subTest(text), self.assertRaises(UsageError) as raised:
                hostfile.parse(text, "hosts")
            self.assertTrue(str(raised.exception).startswith(f"hosts:{line}: "), raised.exception)
            self.assertIn(why, str(raised.exception))

    def test_a_byte_order_mark_is_no_part_of_a_name(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write("\ufeffh1\n".encode())
            file.flush()
            self.assertEqual(hostfile.read(file.name), [hostfile.HostLine("h1")])

    def test_no_hosts(self):
        for text in ("", "# none\n\n"):
            with self.assertRaisesRegex(UsageError, "no hosts"):
                hostfile.parse(text, "f")
        with self.assertRaisesRegex(UsageError, "/no/such"):
            hostfile.read("/no/such")


class Installed(unittest.TestCase):
    """As cmake/SluiceInstall.cmake leaves it: messages name what is there."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.prefix = pathlib.Path(scratch.name).resolve()
        tools = self.prefix / "share" / "sluice" / "tools"
        tools.mkdir(parents=True)
        (self.prefix / "bin").mkdir()
        shutil.copy(ROOT / "tools" / "launch.py", tools)
        shutil.copytree(ROOT / "tools" / "launcher", tools / "launcher", ignore=shutil.ignore_patterns("__pycache__"))
        (self.prefix / "bin" / "sluice_launch").symlink_to(tools / "launch.py")

    def run_it(self, *arguments):
        done = subprocess.run([sys.executable, self.prefix / "bin" / "sluice_launch", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, timeout=60, cwd=self.prefix)
        return done.returncode, done.stdout, " ".join(done.stderr.split())

    def test_a_program_that_is_not_there(self):
        code, _, said = self.run_it("-n", "1", "no_such_program")
        self.assertEqual(code, 2)
        self.assertEqual(said, f"sluice_launch: the command 'no_such_program' does not exist; Sluice's programs are in {self.prefix}/bin")

    def test_help(self):
        code, said, _ = self.run_it("--help")
        self.assertEqual(code, 0)
        self.assertIn("usage: sluice_launch -n W", said)
        self.assertIn("  sluice_launch -n 2 -s 2 train_mnist --kv-store dist_sync\n", said)
        for path in ("tools/", "build/", "launch.py -n"):
            self.assertNotIn(path, said)


PLANTED = """
from .base import Launcher


class Planted(Launcher):
    name = "planted"
    takes = frozenset({"queue"})
    flags = {"--colour": ("C", "what colour")}

    def dry_run(self):
        return [f"{self.options.queue} {self.options.own['--colour']}"]
"""


class Launchers(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.tools = pathlib.Path(scratch.name)
        shutil.copy(ROOT / "tools/launch.py", self.tools)
        shutil.copytree(ROOT / "tools/launcher", self.tools / "launcher", ignore=shutil.ignore_patterns("__pycache__"))

    def run_it(self, *arguments):
        done = subprocess.run([sys.executable, self.tools / "launch.py", "-n", "1", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, timeout=60)
        return done.returncode, done.stdout + " ".join(done.stderr.split())

    def test_a_file_registers_its_launcher_and_its_flags(self):
        (self.tools / "launcher/launchers/planted.py").write_text(PLANTED)
        code, said = self.run_it("--help")
        self.assertEqual(code, 0)
        self.assertRegex(said, r"--launcher NAME .*\n? *.*planted")
        self.assertRegex(said, "--colour C +planted: what colour")
        self.assertEqual(self.run_it("--launcher", "planted", "--queue", "q", "--colour", "red", "--dry-run", "x"), (0, "q red\n"))
        self.assertEqual(self.run_it("--colour", "red", "x"), (2, "launch.py: --colour means nothing to --launcher local"))
        self.assertIn("--colour is empty", self.run_it("--colour", "", "x")[1])

    def test_what_means_nothing_to_a_launcher_is_refused(self):
        values = {"--hostfile": "/dev/stdin", "--host-ip": "10.0.0.1", "--queue": "q", "--jobname": "j", "--agent-port": "9000", "--image": "i",
                  "--namespace": "n", "--sync-dst-dir": "/d", "--ssh": "ssh", "--resource-manager": "http://rm:1"}
        taken = {"local": ["--host-ip"], "ssh": ["--hostfile", "--host-ip", "--sync-dst-dir", "--ssh"], "mpi": ["--hostfile", "--host-ip", "--agent-port"],
                 "slurm": ["--host-ip", "--queue", "--jobname", "--agent-port"], "sge": ["--host-ip", "--queue", "--jobname", "--agent-port"],
                 "yarn": ["--host-ip", "--queue", "--jobname", "--agent-port", "--resource-manager"], "kubernetes": ["--jobname", "--image", "--namespace"]}
        loaded = command_line.LAUNCHERS
        self.assertEqual(set(loaded), set(taken))
        for name, launcher in loaded.items():
            takes = {flag for option, flag in base.SHARED.items() if option in launcher.takes} | set(launcher.flags)
            self.assertEqual(takes, set(taken[name]), name)
            for flag in set(values) - takes - {"--hostfile"}:
                hosts = hostfile.parse("h1", "f") if "hosts" in launcher.takes else None
                option = next((option for option, shared in base.SHARED.items() if shared == flag), None)
                options = Options(**({"hosts": hosts} | ({option: values[flag]} if option else {"own": {flag: values[flag]}})))
                with self.subTest(launcher=name, flag=flag), self.assertRaisesRegex(UsageError, f"^{flag} means nothing to --launcher {name}$"):
                    launcher(Job(1, 1, ["train"]), options)


class Version(unittest.TestCase):
    def test_it_is_the_librarys(self):
        header = (pathlib.Path(__file__).resolve().parents[2] / "include/sluice/version.h").read_text(encoding="utf-8")
        self.assertIn(f'kVersion[] = "{VERSION}";', header)


class Placement(unittest.TestCase):
    def where(self, places):
        return {f"{place.role} {place.rank}": place.index for place in places}

    def test_over_hosts(self):
        self.assertEqual(self.where(placement.over_hosts(2, 4, [1, 2])), {"server 0": 0, "server 1": 1, "worker 0": 0, "worker 1": 1, "worker 2": 1, "worker 3": 0})
        self.assertEqual(self.where(placement.over_hosts(3, 1, [5])), {"server 0": 0, "server 1": 0, "server 2": 0, "worker 0": 0})

    def test_over_seats_everybody_has_one_and_hosts_take_turns(self):
        seats = [("a", None), ("a", None), ("a", None), ("b", None), ("b", None)]
        places = self.where(placement.over_seats(2, 3, seats))
        self.assertEqual(sorted(places.values()), [0, 1, 2, 3, 4])
        self.assertEqual({seats[places[f"server {rank}"]][0] for rank in range(2)}, {"a", "b"})

    def test_over_seats_that_have_roles(self):
        places = self.where(placement.over_seats(1, 2, [("a", "worker"), ("b", "server"), ("a", "worker")]))
        self.assertEqual(places, {"server 0": 1, "worker 0": 0, "worker 1": 2})


class DryRun(unittest.TestCase):
    """What is printed of a process is what it gets, as shares() tells the supervisor."""

    def lines(self, launcher, options=None, **job):
        job = Job(3, 1, ["train", "a b"], **job)
        text = "\n".join(launcher(job, options or Options()).dry_run())
        self.assertNotIn(job.secret, text)
        return text

    def test_each_host_has_its_part(self):
        text = self.lines(Ssh, Options(hosts=hostfile.parse("h1 slots=2\n[fd77::2]:2222 interface=eth1", "f")), worker_resources=Resources(cores=4, gpus=2))
        there = dict(part.split("\n", 1) for part in text.split("# on ")[1:])
        self.assertEqual(list(there), ["this machine: scheduler", "h1: server 0, worker 0, worker 1", "[fd77::2]:2222: worker 2"])
        server, first, second = there["h1: server 0, worker 0, worker 1"].splitlines()
        third, = there["[fd77::2]:2222: worker 2"].splitlines()
        self.assertNotIn("CUDA_VISIBLE_DEVICES", server)
        self.assertIn("DMLC_INTERFACE=eth1", third)
        for line, gpus, workers in ((first, "0,1", 2), (second, "2,3", 2), (third, "0,1", 1)):
            for word in (f"CUDA_VISIBLE_DEVICES={gpus}", "SLUICE_CPU_THREADS=4", f"SLUICE_LOCAL_WORKERS={workers}", "SLUICE_JOB_SECRET='(hidden)'"):
                self.assertIn(f"{word} ", line)
            self.assertTrue(line.endswith(" train 'a b'"), line)

    def test_this_machine(self):
        secret = dict.fromkeys(("MYKEY", "STRIPE_KEY_LIVE", "GITHUB_PAT", "DB_PASSWORD"), "abc")
        text = self.lines(Local, worker_resources=Resources(gpus=1), worker_environment={**secret, "MY_API_KEY": "abc", "NAMED": "a b", "PATH": "/bin"})
        self.assertNotIn("abc", text)
        self.assertIn(" PATH=/bin ", text)
        self.assertIn("MY_API_KEY='(hidden)' NAMED='a b' ", text)
        self.assertEqual([f"CUDA_VISIBLE_DEVICES={gpu} " in text for gpu in range(4)], [True, True, True, False])
        self.assertIn("SLUICE_LOCAL_WORKERS=3", text)

    def test_ports_of_servers(self):
        """Each host's servers count from its first; how many ports one takes it knows itself."""
        text = self.lines(Ssh, Options(hosts=hostfile.parse("h1\nh2", "f")), server_port=9100)
        self.assertEqual(text.count("SLUICE_SERVER_PORT=9100 "), 1)  # one server alone, and no worker
        jobs = Local(Job(1, 3, ["train"], server_port=9100), Options()).dry_run()
        self.assertEqual([" ".join(re.findall(r"SLUICE_(?:LOCAL_SERVER|SERVER_PORT)=\d+", line)) for line in jobs if "DMLC_ROLE=server" in line],
                         [f"SLUICE_LOCAL_SERVER={nth} SLUICE_SERVER_PORT=9100" for nth in range(3)])
        self.assertNotIn("SLUICE_SERVER_PORT", self.lines(Local))
        self.assertIn("SLUICE_LOCAL_SERVER=N", self.lines(Slurm, server_port=9100))

    def test_ports_that_are_none_are_refused_with_what_to_do(self):
        limits = {"--port": 0, "--server-port": 1, "--agent-port": 1}
        for flag, least in limits.items():
            for text, what in (("70000", "70000"), ("-1", "-1"), ("65536", "65536"), ("x", "'x'"), ("", "''"), ("1.5", "'1.5'"), *([("0", "0")] if least else [])):
                number = "a number, " if what.startswith("'") else ""
                with self.subTest(flag=flag, text=text), self.assertRaises(UsageError) as raised:
                    command_line.parser().parse_args(["-n", "1", f"{flag}={text}", "x"])
                self.assertEqual(str(raised.exception), f"{flag} is {what}; it must be {number}at least {least} and at most 65535")
            for text in (str(max(least, 1)), "65535"):
                self.assertEqual(command_line.value_of(command_line.parser().parse_args(["-n", "1", flag, text, "x"]), flag), int(text))

    def test_ports_of_servers_beyond_the_last(self):
        one, two = (hostfile.parse("\n".join(f"h{i}" for i in range(count)), "f") for count in (1, 2))
        for launcher, hosts, servers, threads, highest in ((Local, None, 1, 1, 65535), (Local, None, 3, 1, 65533), (Local, None, 3, 4, 65524), (Ssh, one, 4, 1, 65532),
                                                           (Ssh, two, 4, 1, 65534)):
            environment = {"SLUICE_SERVER_THREADS": str(threads)}
            with self.subTest(launcher=launcher.name, hosts=hosts, servers=servers, threads=threads):
                launcher(Job(1, servers, ["train"], server_port=highest, server_environment=environment), Options(hosts=hosts)).dry_run()
                job = Job(1, servers, ["train"], server_port=highest + 1, server_environment=environment)
                if highest == 65535:
                    continue
                with self.assertRaises(UsageError) as raised:
                    launcher(job, Options(hosts=hosts)).dry_run()
                here = servers // len(hosts or [1])
                self.assertEqual(str(raised.exception), f"--server-port is {highest + 1}, and the {here} servers of a host take {here * threads} ports from there on; "
                                                        f"the last port is 65535: choose {highest} or less")
        image = Options(own={"--image": "i", "--namespace": None})
        Kubernetes(Job(1, 9, ["train"], server_port=65535), image)  # each pod has ports of its own
        with self.assertRaisesRegex(UsageError, "a host's server takes 2 ports from there on; the last port is 65535: choose 65534 or less"):
            Kubernetes(Job(1, 9, ["train"], server_port=65535, server_environment={"SLUICE_SERVER_THREADS": "2"}), image)
        with self.assertRaisesRegex(UsageError, "leave it out, and run fewer servers on a host"):
            Local(Job(1, 300, ["train"], server_port=1, server_environment={"SLUICE_SERVER_THREADS": "256"}), Options()).dry_run()

    def test_batch_systems(self):
        """They hold processes to their parts themselves, and choose the hosts."""
        for launcher, words in ((Sge, ["-pe smp 4", "-l h_vmem=256M", "-l gpu=1", "-t 1-3"]), (Slurm, ["--cpus-per-task=4", "--mem-per-cpu=256M", "--gpus-per-task=1"])):
            with self.subTest(launcher.name):
                text = self.lines(launcher, worker_resources=Resources(4, 1024, 1))
                for word in words:
                    self.assertIn(word, text)
                self.assertIn(f"# on hosts of {launcher.name}'s choice", text)
                self.assertIn("SLUICE_LOCAL_WORKERS=N", text)
                self.assertNotIn("CUDA_VISIBLE_DEVICES", text)


class WhoIsMissing(unittest.TestCase):
    def test_tasks_in_a_row_of_qstat(self):
        self.assertEqual([sge.tasks_of(text) for text in ("3", "1-6:1", "2,5-7:1")], [1, 6, 4])

    def test_hosts_that_came_and_those_that_did_not(self):
        mpi = Mpi(Job(3, 1, ["train"]), Options(hosts=hostfile.parse("h1\nh2.example.org\nh3\n", "f")))
        came = [types.SimpleNamespace(hostname=name) for name in ("h2", "h1")]
        self.assertEqual(mpi.missing(came), "came from h1 (1), h2 (1); none from h3; waiting for those that mpi starts")
        self.assertEqual(mpi.missing([]), "none from h1, h2.example.org, h3; waiting for those that mpi starts")


class Order(unittest.TestCase):
    def test_agents_stand_as_the_hostfile_has_their_hosts(self):
        mpi = Mpi(Job(2, 1, ["train"]), Options(hosts=hostfile.parse("h9.example.org\nh10\n", "f")))
        came = [types.SimpleNamespace(hostname=name, machine=(name, "1"), role=None) for name in ("other", "h10", "h9", "h9")]
        came.sort(key=mpi.in_order(mpi.expected_hosts()))
        self.assertEqual([host.hostname for host in came], ["h9", "h9", "h10", "other"])
        self.assertEqual({(place.role, place.rank): came[place.index].hostname for place in mpi.places(came[:3])},
                         {("server", 0): "h9", ("worker", 0): "h10", ("worker", 1): "h9"})

    @mock.patch("launcher.launchers.mpi.flavour", lambda _: "openmpi")
    def test_a_dry_run_says_the_same(self):
        mpi = Mpi(Job(2, 1, ["train"]), Options(hosts=hostfile.parse("h9\nh10\n", "f")))
        heads = [line for line in mpi.dry_run() if line.startswith("#")]
        self.assertEqual(heads, ["# on this machine: scheduler", "# on h9: server 0, worker 1", "# on h10: worker 0"])


class Variables(unittest.TestCase):
    def test_forms(self):
        os.environ["LAUNCHER_TEST"] = "here"
        for text, expected in (("A=b=c", ("A", "b=c")), ("A:b=c", ("A", "b=c")), ("A=b:c", ("A", "b:c")), ("A=", ("A", "")), ("LAUNCHER_TEST", ("LAUNCHER_TEST", "here"))):
            self.assertEqual(environment.split(text, "--env"), expected)
        for text in ("=a", ":a", "", "A B=c", "DMLC_ROLE=worker", "SLUICE_JOB_SECRET:x", "NO_SUCH_VARIABLE_HERE"):
            with self.subTest(text), self.assertRaises(UsageError):
                environment.split(text, "--env")

    def test_what_travels(self):
        here = {"DMLC_INTERFACE": "1", "PS_VERBOSE": "1", "SLUICE_X": "1", "OMP_X": "1", "NCCL_X": "1", "CUDA_VISIBLE_DEVICES": "0", "LD_LIBRARY_PATH": "/x", "PYTHONPATH": "/y"}
        self.assertEqual(environment.travelling({**here, "HOME": "/h", "DMLC_ROLE": "worker", "SLUICE_JOB_SECRET": "s", "SLUICE_PORT_FD": "3"}), here)


class Addresses(unittest.TestCase):
    def test_ports(self):
        for text, expected in (("h", ("h", None)), ("h:1", ("h", 1)), ("::1", ("::1", None)), ("[::1]", ("::1", None)), ("[::1]:65535", ("::1", 65535))):
            self.assertEqual(addresses.split_port(text), expected)
            if expected[1]:
                self.assertEqual(addresses.with_port(*expected), text)
        for text in ("h:", "h:0", "h:65536", "h:x", "[::1", "[::1]x", "h:\u0661"):
            with self.subTest(text), self.assertRaises(ValueError):
                addresses.split_port(text)

    def test_interfaces(self):
        known = {"lo": ["127.0.0.1"], "eth0": ["10.0.0.1"], "eth1": ["10.0.1.1", "fd00::1"], "wg": []}
        self.assertEqual(addresses.of_interface("eth1", known), ["10.0.1.1", "fd00::1"])
        self.assertEqual(addresses.of_interface("eth", known), ["10.0.0.1", "10.0.1.1", "fd00::1"])
        with self.assertRaisesRegex(UsageError, "DMLC_INTERFACE is ib, .* there are eth0, eth1, lo"):
            addresses.of_interface("ib", known)
        self.assertEqual(addresses.of_interface("eth0", {"eth0": ["169.254.1.1", "10.0.0.1", "fe80::1%eth0"]}), ["10.0.0.1", "169.254.1.1"])
        with self.assertRaisesRegex(UsageError, r"DMLC_INTERFACE is ib0, which has a link-local address alone \(fe80::7%ib0\)"):
            addresses.of_interface("ib0", {**known, "ib0": ["fe80::7%ib0"]})
        self.assertIn("127.0.0.1", addresses.by_interface()["lo"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
