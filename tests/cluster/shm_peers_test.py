"""Peers of shared memory that mean harm, and another job of the same user: the job ends with the same weights, and nothing of
theirs stays in its servers. docs/design/shm.md.

Usage: shm_peers_test.py BIN_DIR
"""
import contextlib
import os
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import shm_attackers as attack  # noqa: E402
from cluster import Cluster  # noqa: E402

BIN = None
PATIENCE = 60
TOKEN_BYTES = 16


def train(saved, seed=1, steps=600):
    """Long enough to be met in the middle on a busy machine: some seconds of two cores."""
    return [BIN / "train_mnist", "--network=mlp", "--kv-store=dist_sync", f"--num-steps={steps}", "--disp-batches=5", "--num-examples=4000",
            f"--seed={seed}", f"--save-params={saved}"]


def descriptors(process):
    return len(os.listdir(f"/proc/{process.popen.pid}/fd"))


def mapped(process, name="memfd:sluice"):
    """Inodes of nameless memory that the process has mapped."""
    lines = pathlib.Path(f"/proc/{process.popen.pid}/maps").read_text().splitlines()
    return {line.split()[4] for line in lines if f"/{name}" in line}


def secrets_of(cluster):
    return cluster.environment["SLUICE_JOB_ID"], cluster.environment["SLUICE_JOB_SECRET"]


def server_ports(cluster):
    return [port for port in cluster.listening_ports() if port != cluster.port()]


class Peers(unittest.TestCase):
    def start(self, stack, seed=1, transport="shm", workers=2):
        """A job of that many workers and two servers that trains; (cluster, file of its weights, servers, workers)."""
        cluster = stack.enter_context(Cluster(BIN, workers, 2, SLUICE_TRANSPORT=transport, SLUICE_SERVER_THREADS=1, PS_HEARTBEAT_TIMEOUT=120))
        saved = cluster.folder / "end.safetensors"
        _, servers, its_workers = cluster.start_all(train(saved, seed))
        return cluster, saved, servers, its_workers

    def finish(self, cluster, saved):
        for process in cluster.processes:
            self.assertEqual(process.wait(PATIENCE), 0, process.output())
        return saved.read_bytes()

    def without_cluster(self, seed=1):
        """The weights that the same job ends with, undisturbed and without shared memory."""
        with contextlib.ExitStack() as stack:
            cluster, saved, *_ = self.start(stack, seed, transport="tcp")
            return self.finish(cluster, saved)

    def stop_in_mid_round(self, workers):
        """Its servers then hold what the other worker leased to them."""
        workers[0].wait_for_output("batch", PATIENCE)
        workers[-1].kill(signal.SIGSTOP)
        self.assertIsNone(workers[-1].popen.poll(), "it has ended before it could be stopped")

    def wait_until(self, holds, what):
        end = time.monotonic() + PATIENCE
        while not holds():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)

    def assert_shut(self, link):
        self.assertIsNone(link.hear(), "somebody was let in")

    def assert_let_in(self, link):
        self.assertEqual(link.hear(), (attack.LEASE_RETURNS, 1))

    # --- Requests at the rendezvous, and records on its links ---

    def request_without_a_token(self, rendezvous, token):
        for wrong in (os.urandom(TOKEN_BYTES), b"", b"abc", token[:8] + os.urandom(8), token + b"more", token[:-1]):
            returns = attack.memory(attack.LEASE_RETURNS_BYTES)
            with self.subTest(token=wrong), attack.Link(rendezvous, wrong, [returns]) as link:
                self.assert_shut(link)
            os.close(returns)

    def request_with_memory_that_may_shrink(self, member):
        returns = attack.memory(attack.LEASE_RETURNS_BYTES, seals=0)
        with attack.Link(*member.offer(), [returns]) as link:
            self.assert_shut(link)
        os.close(returns)

    def bring_many_descriptors(self, member):
        returns = attack.memory(attack.LEASE_RETURNS_BYTES)
        with attack.Link(*member.offer(), [returns] * 200) as link:
            self.assert_let_in(link)
        os.close(returns)

    @contextlib.contextmanager
    def let_in(self, member):
        """(link, returns)"""
        returns = attack.memory(attack.LEASE_RETURNS_BYTES)
        with attack.Link(*member.offer(), [returns]) as link:
            self.assert_let_in(link)
            yield link, returns
        os.close(returns)

    def lease_memory_that_may_shrink(self, member):
        with self.let_in(member) as (link, _):
            segment = attack.memory(attack.MIB, seals=0)
            link.say(attack.SEGMENT, 1, segment)
            member.send(attack.PUSH, leases=[(1, 1, 0, attack.MIB)])
            os.ftruncate(segment, 0)
            os.close(segment)
            self.assert_shut(link)

    def shrink_what_is_sealed_and_die(self, member):
        with self.let_in(member) as (link, _):
            segment = attack.memory(attack.MIB)
            link.say(attack.SEGMENT, 1, segment)
            member.send(attack.PUSH, leases=[(1, 1, 0, attack.MIB // 2), (2, 1, attack.MIB // 2, attack.MIB // 2)])
            with self.assertRaises(PermissionError):
                os.ftruncate(segment, 0)
            os.close(segment)  # never mapped here, and from now on only there

    def name_what_is_not_there(self, member):
        with self.let_in(member) as (link, _):
            segment = attack.memory(attack.MIB)
            link.say(attack.SEGMENT, 1, segment)
            os.close(segment)
            for lease in ((1, 2, 0, 4096), (2, 1, attack.MIB - 1, 4096), (3, 1, (1 << 64) - 1, (1 << 64) - 1), ((1 << 64) - 1, 1, 0, 4096)):
                member.send(attack.PUSH, leases=[lease])

    def lie_about_what_came_back(self, member):
        with self.let_in(member) as (_, returns):
            attack.write_lies(returns)
            member.send(attack.PUSH)

    def talk_nonsense(self, member):
        for kind, segment in ((99, 0), (attack.SEGMENT_GONE, 7)):
            with self.let_in(member) as (link, _):
                link.say(kind, segment)
                self.assert_shut(link)
        with self.let_in(member) as (link, _):
            link.socket.send(b"short")
            self.assert_shut(link)

    def lease_more_than_there_is(self, member):
        with self.let_in(member) as (link, _):
            segment = attack.memory(2 << 40)
            link.say(attack.SEGMENT, 1, segment)
            os.close(segment)
            self.assert_shut(link)

    def attack(self, cluster, port):
        """Each kind by a connection of its own: who sent what a server refuses is muted."""
        for kind in (self.request_with_memory_that_may_shrink, self.bring_many_descriptors, self.lease_memory_that_may_shrink,
                     self.shrink_what_is_sealed_and_die, self.name_what_is_not_there, self.lie_about_what_came_back, self.talk_nonsense,
                     self.lease_more_than_there_is):
            with self.subTest(kind.__name__), attack.Member(port, *secrets_of(cluster)) as member:
                kind(member)
        with attack.Member(port, *secrets_of(cluster)) as member:
            self.request_without_a_token(*member.offer())

    def test_a_hostile_peer_hurts_only_itself(self):
        with contextlib.ExitStack() as stack:
            cluster, saved, servers, workers = self.start(stack)
            self.stop_in_mid_round(workers)
            before = {server.name: descriptors(server) for server in servers}
            for port in server_ports(cluster):
                self.attack(cluster, port)
            for server in servers:
                self.wait_until(lambda s=server: not mapped(s, "memfd:attack"), "memory of an attacker stays mapped")
                self.wait_until(lambda s=server: descriptors(s) <= before[s.name], "descriptors of an attacker stay open")
            workers[-1].kill(signal.SIGCONT)
            self.assertEqual(self.finish(cluster, saved), self.without_cluster())

    def test_two_jobs_of_one_user_share_nothing(self):
        with contextlib.ExitStack() as stack:
            jobs = [self.start(stack, seed) for seed in (1, 2)]
            for *_, workers in jobs:
                self.stop_in_mid_round(workers)
            memory = [set().union(*(mapped(process) for process in (*servers, *workers))) for *_, servers, workers in jobs]
            self.assertTrue(memory[0] and memory[1])
            self.assertFalse(memory[0] & memory[1], "memory of one job is mapped in the other")
            self.request_at_each_others_rendezvous([cluster for cluster, *_ in jobs])
            for *_, workers in jobs:
                workers[-1].kill(signal.SIGCONT)
            ends = [self.finish(cluster, saved) for cluster, saved, *_ in jobs]
        self.assertEqual(ends, [self.without_cluster(seed) for seed in (1, 2)])

    def request_at_each_others_rendezvous(self, clusters):
        ports = [server_ports(cluster)[0] for cluster in clusters]
        for mine, theirs in ((0, 1), (1, 0)):
            # With this job's secret nobody comes to speak with the other's servers, and so to a token.
            with self.assertRaises(OSError), attack.Member(ports[theirs], *secrets_of(clusters[mine])) as member:
                member.offer()
            with attack.Member(ports[mine], *secrets_of(clusters[mine])) as own, attack.Member(ports[theirs], *secrets_of(clusters[theirs])) as other:
                _, token = own.offer()
                rendezvous, _ = other.offer()
                returns = attack.memory(attack.LEASE_RETURNS_BYTES)
                with attack.Link(rendezvous, token, [returns]) as link:
                    self.assert_shut(link)
                os.close(returns)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
