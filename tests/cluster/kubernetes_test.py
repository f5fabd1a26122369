"""launch.py --launcher kubernetes against a stand-in (fake_cluster.py): a real cluster cannot be installed here.

Usage: kubernetes_test.py BIN_DIR
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from fake_cluster import Cluster, checked  # noqa: E402
from launch_test import LAUNCH, end_launch, end_of, free_ports, start_job  # noqa: E402

BIN = None
NASTY = ["a b", "quo'te", 'dou"ble', "$HOME", "$(HOME)", "$$", ";ls", "line\nbreak", "\u00fc\u4e2d", "*", ""]


class OnKubernetes(unittest.TestCase):
    def start(self, cluster, *arguments):
        self.enterContext(cluster)
        return start_job(self, "--launcher", "kubernetes", "--image", "registry/sluice:1", "--port", free_ports(1), "-n", "2", "-s", "1", *arguments,
                         env={**os.environ, "PATH": f"{cluster.folder}:{os.environ['PATH']}"})

    def test_a_job(self):
        cluster = Cluster(BIN)
        code, said = end_of(self.start(cluster, "--namespace", "research", "--jobname", "digits", "--worker-cores", 2, "--worker-memory", "2g", "--worker-gpus", 1,
                                            "kv_tour", "--kv-store=dist_sync"))
        self.assertEqual(code, 0, said)
        self.assertIn("[worker 0] the tour is over: dist_sync, 2 workers", said)
        kinds = [(item["kind"], item["metadata"]["namespace"]) for item in cluster.created]
        self.assertEqual(kinds, [(kind, "research") for kind in ("Secret", "Service", "Job", "Job", "Job")])
        amounts = {"cpu": "2", "memory": "2048Mi", "nvidia.com/gpu": "1"}
        self.assertEqual(cluster.created[-1]["spec"]["template"]["spec"]["containers"][0]["resources"], {"requests": amounts, "limits": amounts})
        secret = cluster.created[0]["stringData"]["SLUICE_JOB_SECRET"]
        self.assertNotIn(secret, json.dumps([cluster.created[1:], cluster.commands]))
        self.assertEqual(cluster.commands[-1][:4], ["--namespace", "research", "delete", "jobs,services,secrets"])
        self.assertEqual(cluster.pods, [])

    def test_a_watch_that_ends_is_begun_again(self):
        cluster = Cluster(BIN, watch_seconds=0.3)
        code, said = end_of(self.start(cluster, "sh", "-c", "sleep 2; echo well"))
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count("] well\n"), 2, said)
        self.assertGreater(sum("get" in command for command in cluster.commands), 3)

    def test_a_log_that_is_cut_goes_on_where_it_was(self):
        code, said = end_of(self.start(Cluster(BIN, log_seconds=0.5), "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.5; done"))
        self.assertEqual(code, 0, said)
        for rank in range(2):
            self.assertEqual([int(line.split()[-1]) for line in said.splitlines() if line.startswith(f"[worker {rank}] line")], list(range(1, 9)), said)

    def test_what_was_created_before_something_is_refused_goes(self):
        cluster = Cluster(BIN, refuses="Job")
        code, said = end_of(self.start(cluster, "true"))
        self.assertEqual(code, 2, said)
        self.assertIn("Forbidden", said)
        self.assertIn("delete", cluster.commands[-1])

    def test_ctrl_c_while_kubectl_hangs(self):
        cluster = Cluster(BIN)
        for number, expected in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
            (cluster.folder / "kubectl").write_text("#!/bin/sh\necho $* >>$0.ran\nexec sleep 600\n")
            job = self.start(cluster, "true")
            end = time.monotonic() + 20
            while not (cluster.folder / "kubectl.ran").exists():
                self.assertLess(time.monotonic(), end)
                time.sleep(0.02)
            job.send_signal(number)
            code, said = end_of(job, 15)
            self.assertEqual(code, expected, said)
            (cluster.folder / "kubectl.ran").unlink()

    def test_arguments_arrive_unchanged(self):
        code, said = end_of(self.start(Cluster(BIN), sys.executable, "-c", "import sys; print(ascii(sys.argv[1:]))", *NASTY))
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count(ascii(NASTY)), 2, said)

    def test_a_worker_that_fails(self):
        cluster = Cluster(BIN)
        code, said = end_of(self.start(cluster, "sh", "-c", 'echo "I am $DMLC_RANK"; [ "$DMLC_RANK" = 1 ] && exit 9; sleep 60'))
        self.assertEqual(code, 9, said)
        self.assertRegex(said, r"worker 1 \(pod sluice-\w+-worker-1-abcde on node-1\) ended with exit code 9 \(Error\); its last lines are above\n")
        self.assertIn("[worker 1] I am 1\n", said)
        self.assertEqual(cluster.pods, [])

    def test_an_image_that_there_is_not(self):
        code, said = end_of(self.start(Cluster(BIN, stuck="ImagePullBackOff"), "true"))
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"scheduler \(pod \S+\) cannot start: ImagePullBackOff")

    def test_pods_that_wait_are_spoken_of(self):
        code, said = end_of(self.start(Cluster(BIN, stuck="ContainerCreating"), "--timeout", 12, "true"))
        self.assertEqual(code, 1, said)
        waiting = "waiting for scheduler (Pending: ContainerCreating), server 0 (not created), worker 0 (not created), worker 1 (not created)"
        self.assertIn(f"launch.py: {waiting}\n", said)
        self.assertIn(f"not all pods run within 12 s: {waiting}\n", said)

    def test_time_that_is_over_before_the_first_report(self):
        code, said = end_of(self.start(Cluster(BIN, stuck="ContainerCreating"), "--timeout", 2, "true"))
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"\A\S+ not all pods run within 2 s: waiting for scheduler")

    def test_what_cannot_be_deleted_is_said(self):
        cluster = Cluster(BIN, refuses="delete")
        code, said = end_of(self.start(cluster, "true"))
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"kubectl ended with 1: Error from server \(Forbidden\): delete; what this job made may still be there: kubectl delete jobs,services,secrets "
                               r"--selector sluice.dev/job=sluice-\w+ \S.* deletes it")

    def test_ctrl_c_and_kill_9(self):
        for kill, number, expected in (("launch", signal.SIGINT, 130), ("launch", signal.SIGKILL, -9), ("runner", signal.SIGKILL, 137)):
            with self.subTest(kill=kill, number=number):
                cluster = Cluster(BIN)
                job = self.start(cluster, "sh", "-c", "echo here; sleep 600")
                for line in job.stdout:
                    if "here" in line:
                        break
                end_launch(job, kill, number)
                code, said = end_of(job, 20)
                self.assertEqual(code, expected, said)
                end = time.monotonic() + 10
                while cluster.pods:
                    self.assertLess(time.monotonic(), end, "pods are left")
                    time.sleep(0.05)

    def test_dry_run_prints_manifests_without_the_secret(self):
        done = subprocess.run([*LAUNCH, "--launcher", "kubernetes", "--image", "i", "-n", "2", "--namespace", "research", "--env", "MY_API_KEY=abc", "--dry-run", "train", "a"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0)
        first, *calls = done.stdout.split("kubectl --namespace research create -f - <<'EOF'\n")
        self.assertEqual((first, len(calls), [call[-5:] for call in calls]), ("", 2, ["\nEOF\n"] * 2))
        items = [checked(item) for call in calls for item in json.loads(call.removesuffix("EOF\n"))["items"]]
        self.assertEqual([item["kind"] for item in items], ["Secret", "Service", "Job", "Job", "Job"])
        self.assertIn('"(hidden)"', calls[1])
        self.assertNotIn("abc", done.stdout)
        self.assertEqual(items[0]["stringData"], {"SLUICE_JOB_SECRET": "(hidden)"})
        self.assertNotRegex(done.stdout, r"[0-9a-f]{64}")

    def test_wrong_use(self):
        for arguments, word in ((["true"], "--image"), (["--image", "i", "--jobname", "A_b", "true"], "A_b"), (["--image", "i", "--queue", "q", "true"], "--queue"),
                                (["--image", "i", "--host-ip", "1.2.3.4", "true"], "--host-ip")):
            done = subprocess.run([*LAUNCH, "--launcher", "kubernetes", "-n", "1", *arguments], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
