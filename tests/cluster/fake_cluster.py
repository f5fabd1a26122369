"""A stand-in of a Kubernetes cluster for launch.py: a `kubectl` that asks this process, where pods are processes of this machine.

What launch.py creates is read through the classes that the published OpenAPI schema makes (Debian's python3-kubernetes), and has to come
out as it went in: a field that the schema has not, or another type, fails.
"""
import contextlib
import json
import os
import pathlib
import signal
import socketserver
import subprocess
import tempfile
import threading
import time

import kubernetes

KUBECTL = """#!/usr/bin/python3
import json, socket, sys
cluster = socket.socket(socket.AF_UNIX)
cluster.connect({path!r})
asks = "-f" in sys.argv and sys.argv[sys.argv.index("-f") + 1:][:1] == ["-"]
cluster.sendall(json.dumps([sys.argv[1:], sys.stdin.read() if asks else ""]).encode() + b"\\n")
answer = cluster.makefile("rb", buffering=0)
code = int(answer.readline())
out = sys.stderr.buffer if code else sys.stdout.buffer
while chunk := answer.read(1 << 16):
    out.write(chunk)
    out.flush()
sys.exit(code)
"""
KINDS = {"Secret": "V1Secret", "Service": "V1Service", "Job": "V1Job"}


class Answer:
    """What json.loads gave, as kubernetes.client reads answers."""

    def __init__(self, text):
        self.data = text


def checked(item):
    """ValueError unless the schema has all of it."""
    client = kubernetes.client.ApiClient()
    read = client.deserialize(Answer(json.dumps(item)), KINDS[item["kind"]])
    if (again := client.sanitize_for_serialization(read)) != item:
        raise ValueError(f"{item['kind']}: the schema knows {again}, not {item}")
    return item


class Pod:
    def __init__(self, cluster, job, index):
        template = job["spec"]["template"]
        self.name = f"{job['metadata']['name']}-{index}-abcde"
        self.metadata = {"name": self.name, "labels": template["metadata"]["labels"], "annotations": {"batch.kubernetes.io/job-completion-index": str(index)}}
        self.container = template["spec"]["containers"][0]
        self.log = cluster.folder / f"{self.name}.log"
        environment = {each["name"]: self.value(cluster, each) for each in self.container["env"]}
        environment = {**{"PATH": f"{cluster.bin}:{os.environ['PATH']}"}, **environment, "DMLC_PS_ROOT_URI": "127.0.0.1"}
        command = [word.replace("$$", "$") for word in self.container["command"]]
        self.state = {"waiting": {"reason": cluster.stuck}} if cluster.stuck else {"running": {}}
        self.process = None
        if not cluster.stuck:
            with open(self.log, "wb") as log:
                self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def value(self, cluster, variable):
        if "value" in variable:
            return variable["value"].replace("$$", "$")
        source = variable["valueFrom"]
        if "secretKeyRef" in source:
            return cluster.secrets[source["secretKeyRef"]["name"]][source["secretKeyRef"]["key"]]
        assert source["fieldRef"]["fieldPath"] == "metadata.annotations['batch.kubernetes.io/job-completion-index']"
        return self.metadata["annotations"]["batch.kubernetes.io/job-completion-index"]

    def look(self):
        """As `kubectl get` shows it."""
        code = self.process.poll() if self.process else None
        if code is not None:
            self.state = {"terminated": {"exitCode": code if code >= 0 else 128 - code, "reason": "Completed" if code == 0 else "Error"}}
        phase = "Pending" if "waiting" in self.state else "Running" if code is None else "Succeeded" if code == 0 else "Failed"
        return {"apiVersion": "v1", "kind": "Pod", "metadata": self.metadata, "spec": {"nodeName": "node-1"},
                "status": {"phase": phase, "containerStatuses": [{"name": self.container["name"], "state": self.state}]}}

    def end(self):
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Cluster:
    def __init__(self, bin_dir, stuck=None, watch_seconds=3600.0, log_seconds=3600.0, refuses="nothing"):
        """`stuck`: the reason why no container starts. A watch ends after `watch_seconds`, as an API server's do after some time, the
        first stream of each pod's log after `log_seconds`.
        `refuses`: a kind of object, once those before it are there, or what kubectl is to do."""
        self.bin, self.stuck, self.watch_seconds, self.log_seconds, self.refuses = bin_dir, stuck, watch_seconds, log_seconds, refuses
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name)
        self.created, self.commands, self.pods, self.secrets = [], [], [], {}
        self.closed = threading.Event()
        kubectl = self.folder / "kubectl"
        kubectl.write_text(KUBECTL.format(path=str(self.folder / "socket")))
        kubectl.chmod(0o755)
        cluster = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                arguments, text = json.loads(self.rfile.readline())
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    cluster.answer(arguments, text, self.wfile)

        self.server = socketserver.ThreadingUnixStreamServer(str(self.folder / "socket"), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed.set()
        self.server.shutdown()
        self.server.server_close()
        self.delete()
        self.scratch.cleanup()

    def delete(self):
        for pod in self.pods:
            pod.end()
        self.pods = []

    def answer(self, arguments, text, out):
        self.commands.append(arguments)
        words = arguments[2:] if arguments[0] == "--namespace" else arguments
        if words[0] == "create":
            self.create(text, out)
        elif words[0] == self.refuses:
            out.write(f"1\nError from server (Forbidden): {words[0]}\n".encode())
        elif words[0] == "delete":
            self.delete()
            out.write(b"0\n")
        elif words[0] == "get":
            out.write(b"0\n")
            self.watch(out)
        elif words[0] == "logs":
            out.write(b"0\n")
            self.follow(words[1:-1], words[-1], out)
        else:
            out.write(b"1\nerror: unknown command\n")

    def create(self, text, out):
        try:
            items = [checked(item) for item in json.loads(text)["items"]]
        except (ValueError, TypeError) as error:
            out.write(b"1\n" + f"error validating data: {error}\n".encode())
            return
        self.created += items
        for item in items:
            if item["kind"] == self.refuses:
                out.write(f"1\nError from server (Forbidden): {item['kind']}\n".encode())
                return
            if item["kind"] == "Secret":
                self.secrets[item["metadata"]["name"]] = item["stringData"]
            if item["kind"] == "Job":
                self.pods += [Pod(self, item, index) for index in range(item["spec"]["completions"])]
        out.write(b"0\n")

    def watch(self, out):
        """Every change, as objects in lines, one after the other."""
        told, end = {}, time.monotonic() + self.watch_seconds
        while not self.closed.is_set() and time.monotonic() < end:
            for pod in list(self.pods):
                now = pod.look()
                if told.get(pod.name) != now:
                    told[pod.name] = json.loads(json.dumps(now))
                    out.write(json.dumps(now, indent=4).encode() + b"\n")
            time.sleep(0.02)

    def follow(self, flags, name, out):
        """A line's time is its number, and two lines share none."""
        assert "--timestamps" in flags
        pod, = (pod for pod in self.pods if pod.name == name)
        since = next((flag.partition("=")[2] for flag in flags if flag.startswith("--since-time=")), "")
        end, number = time.monotonic() + (3600.0 if since else self.log_seconds), 0
        with open(pod.log, "rb") as log:
            while time.monotonic() < end:
                ended = pod.process.poll() is not None
                place, line = log.tell(), log.readline()
                if line.endswith(b"\n"):
                    number += 1
                    if (stamp := f"2026-01-01T00:00:00.{number:09d}Z") >= since:
                        out.write(f"{stamp} ".encode() + line)
                elif ended or self.closed.is_set() or "--follow" not in flags:
                    return
                else:
                    log.seek(place)
                    time.sleep(0.02)
