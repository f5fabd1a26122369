"""launch.py --launcher yarn against a stand-in of YARN's REST interface, which runs what it is asked to as processes of this machine.

The interface is that of https://hadoop.apache.org/docs/r3.3.6/hadoop-yarn/hadoop-yarn-site/yarn-service/YarnServiceAPI.html; a real YARN
cannot be installed here. Usage: yarn_test.py BIN_DIR
"""
import contextlib
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from any_launcher import NASTY  # noqa: E402
from launch_test import LAUNCH, await_that, carrying, end_launch, end_of, start_job  # noqa: E402

BIN = None
# The fields that a client sets, with their types, of the definitions Service, Component, Resource, ResourceInformation, Configuration.
SERVICE = {"name": str, "version": str, "description": str, "queue": str, "components": list}
COMPONENT = {"name": str, "number_of_containers": int, "launch_command": str, "resource": dict, "restart_policy": str, "configuration": dict}
RESOURCE = {"cpus": int, "memory": str, "additional": dict}
REQUIRED = {"Service": {"name", "version"}, "Component": {"name", "number_of_containers"}}
NAME = r"[a-z][a-z0-9-]*[a-z0-9]"


def check(kind, given, fields):
    for name, value in given.items():
        if name not in fields:
            raise ValueError(f"{kind} has no {name}")
        if type(value) is not fields[name]:
            raise ValueError(f"{name} of {kind} is a {type(value).__name__}")
    if missing := REQUIRED.get(kind, set()) - given.keys():
        raise ValueError(f"{kind} lacks {missing}")


def check_service(service):
    check("Service", service, SERVICE)
    if not re.fullmatch(NAME, service["name"]):
        raise ValueError(f"the service's name is {service['name']}")
    for component in service["components"]:
        check("Component", component, COMPONENT)
        check("Resource", component["resource"], RESOURCE)
        if component["restart_policy"] not in ("ALWAYS", "NEVER", "ON_FAILURE"):
            raise ValueError("restart_policy")
        if not re.fullmatch(NAME, component["name"]) or not component["resource"]["memory"].isdigit():
            raise ValueError("the component's name or memory")
        for information in component["resource"].get("additional", {}).values():
            check("ResourceInformation", information, {"value": int, "unit": str})
        check("Configuration", component["configuration"], {"env": dict, "properties": dict, "files": list})


class Yarn(http.server.ThreadingHTTPServer):
    """One service at a time."""

    def __init__(self, refuse=None, state="STABLE", hangs=False):
        """`hangs`: a new service waits for `may_answer`."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.refuse, self.state, self.is_closed = refuse, state, False
        self.asked, self.may_answer, self.deleted = threading.Event(), threading.Event(), []
        if not hangs:
            self.may_answer.set()
        self.requests, self.services, self.containers = [], {}, []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def run(self, service):
        """A container's command is a line of its launch script, for bash."""
        for component in service["components"]:
            environment = {"PATH": os.environ["PATH"], **component["configuration"]["env"]}
            for _ in range(component["number_of_containers"]):
                self.containers.append(subprocess.Popen(["bash", "-c", component["launch_command"]], env=environment, start_new_session=True,
                                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def end(self):
        for container in self.containers:
            try:
                os.killpg(container.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            container.wait()

    def close(self):
        self.is_closed = True
        self.shutdown()
        self.server_close()
        self.end()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, code, body):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # nobody waits any more
            self.end_headers()
            self.wfile.write(data)

    def handle_one(self, method):
        url, yarn = urllib.parse.urlparse(self.path), self.server
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        yarn.requests.append((method, url.path, body))
        if "user.name" not in urllib.parse.parse_qs(url.query):
            return self.answer(403, {"diagnostics": "Null user"})
        if method == "POST" and url.path == "/app/v1/services":
            return self.create(body)
        name = url.path.removeprefix("/app/v1/services/")
        if name not in yarn.services:
            return self.answer(404, {"diagnostics": f"Service {name} not found"})
        if method == "GET":
            return self.answer(200, None if yarn.state == "null" else {**yarn.services[name], "state": yarn.state})
        del yarn.services[name]
        yarn.deleted.append(name)
        yarn.end()
        return self.answer(200, {"diagnostics": f"Successfully destroyed service {name}"})

    def create(self, service):
        self.server.asked.set()
        self.server.may_answer.wait(60)
        if self.server.is_closed:
            return self.answer(503, {"diagnostics": "too late"})
        try:
            check_service(service)
        except ValueError as error:
            return self.answer(400, {"diagnostics": str(error)})
        if self.server.refuse:
            return self.answer(400, {"diagnostics": self.server.refuse})
        self.server.services[service["name"]] = service
        if self.server.state == "STABLE":
            self.server.run(service)
        return self.answer(202, {"uri": f"/v1/services/{service['name']}", "diagnostics": "Application ID: application_1_0001", "state": "ACCEPTED"})

    do_POST = lambda self: self.handle_one("POST")      # noqa: E731
    do_GET = lambda self: self.handle_one("GET")        # noqa: E731
    do_DELETE = lambda self: self.handle_one("DELETE")  # noqa: E731


def answer_as_ssh(listener):
    """Once: after it has read the request, for what a client still sends to who has closed is a broken pipe, and no answer."""
    end, _ = listener.accept()
    with end, end.makefile("rb") as request:
        length = 0
        while (line := request.readline().strip()):
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        request.read(length)
        end.sendall(b"SSH-2.0-x\r\n")


class OnYarn(unittest.TestCase):
    def start(self, yarn, *arguments):
        self.addCleanup(yarn.close)
        return start_job(self, "--launcher", "yarn", "--resource-manager", yarn.url(), "-n", "2", "-s", "1", *arguments)

    def test_a_job(self):
        yarn = Yarn()
        job = self.start(yarn, "--worker-cores", 2, "--worker-memory", "2g", "--server-gpus", 1, "--queue", "research", "--jobname", "digits",
                         BIN / "kv_tour", "--kv-store=dist_sync")
        code, said = end_of(job)
        self.assertEqual(code, 0, said)
        self.assertIn("[worker 0] the tour is over: dist_sync, 2 workers", said)
        method, _, service = yarn.requests[0]
        self.assertEqual(method, "POST")
        self.assertEqual((service["queue"], service["name"][:7]), ("research", "digits-"))
        self.assertEqual({component["name"]: (component["number_of_containers"], component["resource"]) for component in service["components"]},
                         {"server": (1, {"cpus": 1, "memory": "1024", "additional": {"yarn.io/gpu": {"value": 1}}}), "worker": (2, {"cpus": 2, "memory": "2048"})})
        self.assertNotIn(service["components"][0]["configuration"]["env"]["SLUICE_LAUNCH_TOKEN"], service["components"][0]["launch_command"])
        self.assertEqual([request[0] for request in yarn.requests[1:]][-1], "DELETE")
        self.assertEqual(yarn.services, {})

    def test_arguments_and_variables_arrive_unchanged(self):
        value, script = "a b'\"$HOME;\n\u00fc", "import os, sys; print(ascii(sys.argv[1:]), ascii(os.environ['NAMED']))"
        code, said = end_of(self.start(Yarn(), "--env", f"NAMED={value}", "/usr/bin/python3", "-c", script, *NASTY))
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count(f"{ascii(NASTY)} {ascii(value)}"), 2, said)

    def test_a_worker_that_fails(self):
        yarn = Yarn()
        code, said = end_of(self.start(yarn, "--env", f"PATH={BIN}:{os.environ['PATH']}", "sh", "-c", '[ "$DMLC_RANK" = 1 ] && exit 9; sleep 60'))
        self.assertEqual(code, 9, said)
        self.assertRegex(said, r"worker 1 \(host \S+, pid \d+\) ended with exit code 9")
        self.assertEqual(yarn.services, {})

    def test_ctrl_c_and_kill_9(self):
        for kill, number, expected in (("launch", signal.SIGINT, 130), ("launch", signal.SIGKILL, -9), ("runner", signal.SIGKILL, 137)):
            with self.subTest(kill=kill, number=number):
                yarn, marker = Yarn(), f"yarn-{os.getpid()}-{kill}-{number}"
                job = self.start(yarn, "--env", f"LAUNCH_TEST={marker}", "sh", "-c", "echo here; sleep 600")
                for line in job.stdout:
                    if "here" in line:
                        break
                end_launch(job, kill, number)
                code, _ = end_of(job, 20)
                self.assertEqual(code, expected)
                end = time.monotonic() + 10
                while carrying(f"LAUNCH_TEST={marker}") or yarn.services:
                    self.assertLess(time.monotonic(), end, "left")
                    time.sleep(0.1)

    def test_a_service_that_is_refused_or_fails(self):
        code, said = end_of(self.start(Yarn(refuse="queue research is full"), BIN / "kv_tour"))
        self.assertEqual(code, 2, said)
        self.assertIn("with 400: queue research is full", said)
        code, said = end_of(self.start(Yarn(state="FAILED"), BIN / "kv_tour"))
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"YARN's service sluice-\w+ is FAILED")

    def test_a_service_that_waits_is_spoken_of(self):
        code, said = end_of(self.start(Yarn(state="ACCEPTED"), "--timeout", 11, BIN / "kv_tour"))
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"0 of 3 agents are there; YARN's service \S+ is ACCEPTED")
        self.assertRegex(said, r"not all agents are there within 11 s")

    def test_ctrl_c_while_yarn_does_not_answer(self):
        """A service that it makes of a late request goes as well, also of one that is answered once nobody waits for it."""
        for kill, number, expected, late in (("launch", signal.SIGINT, 130, 0.5), ("launch", signal.SIGINT, 130, 5), ("launch", signal.SIGKILL, -9, 5), ("runner", signal.SIGKILL, 137, 2)):
            with self.subTest(kill=kill, number=number, late=late):
                yarn = Yarn(hangs=True)
                job = self.start(yarn, "true")
                self.assertTrue(yarn.asked.wait(20))
                end_launch(job, kill, number)
                time.sleep(late)  # it has not answered by then
                yarn.may_answer.set()
                code, said = end_of(job, 15)
                self.assertEqual(code, expected, said)
                await_that(self, lambda: yarn.deleted and not yarn.services, "left")

    def test_ctrl_c_while_yarn_never_answers(self):
        yarn = Yarn(hangs=True)
        self.addCleanup(yarn.may_answer.set)
        job = self.start(yarn, "true")
        self.assertTrue(yarn.asked.wait(20))
        job.send_signal(signal.SIGINT)
        code, said = end_of(job, 20)
        self.assertEqual(code, 130, said)
        self.assertRegex(said, r"should sluice-\w+ come, this deletes it: curl -X DELETE 'http://\S+/sluice-\w+\?user\.name=\w+'")

    def test_answers_that_are_none(self):
        code, said = end_of(self.start(Yarn(state="null"), "--timeout", 12, "true"), 30)
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"not all agents are there within 12 s: .* answers GET /sluice-\w+ with None, which is no object")

    def test_nobody_there(self):
        done = subprocess.run([*LAUNCH, "--launcher", "yarn", "--resource-manager", "http://127.0.0.1:1", "-n", "1", "true"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"Connection\s+refused")

    def test_addresses_that_are_none(self):
        with socket.create_server(("127.0.0.1", 0)) as other, tempfile.TemporaryDirectory() as folder:
            threading.Thread(target=answer_as_ssh, args=(other,), daemon=True).start()
            for text, word in (("<name>yarn.resourcemanager.webapp.address</name>", "has no yarn.resourcemanager.webapp.address"),
                               ("<name>yarn.resourcemanager.webapp.address</name><value>${no.such}:8088</value>", "'${no.such}:8088'"), ("<", "yarn-site.xml: ")):
                pathlib.Path(folder, "yarn-site.xml").write_text(f"<configuration><property>{text}</property></configuration>")
                self.check_refused([], word, {"HADOOP_CONF_DIR": folder})
            pathlib.Path(folder, "yarn-site.xml").write_text("<configuration><property><name>h</name><value>127.0.0.1</value></property><property>"
                                                             "<name>yarn.resourcemanager.webapp.address</name><value>${h}:1</value></property></configuration>")
            self.check_refused([], "YARN at http://127.0.0.1:1 cannot be asked: [Errno 111] Connection refused", {"HADOOP_CONF_DIR": folder})
            pathlib.Path(folder, "yarn-site.xml").write_text("<configuration><property><name>yarn.resourcemanager.hostname</name><value>127.0.0.1</value></property></configuration>")
            self.check_refused(["--jobname", "my job"], "--jobname is 'my job'; YARN wants at most 41 letters, digits and hyphens", {"HADOOP_CONF_DIR": folder})
            self.assertIn("POST http://127.0.0.1:8088/app/v1/services\n",
                          subprocess.run([*LAUNCH, "--launcher", "yarn", "-n", "1", "--dry-run", "true"], capture_output=True, text=True, timeout=60,
                                         env={**os.environ, "HADOOP_CONF_DIR": folder}).stdout)
            self.check_refused(["--resource-manager", "http://[::1"], "cannot be asked: Invalid IPv6 URL")
            self.check_refused(["--resource-manager", "http://ann:geheim@rm:8088"], "'http://ann:(hidden)@rm:8088'; YARN's interface takes no user or password")
            self.check_refused(["--resource-manager", "rm"], "it is a URL, such as http://rm:8088")
            self.check_refused(["--resource-manager", f"http://127.0.0.1:{other.getsockname()[1]}"], "cannot be asked: SSH-2.0-x")

    def check_refused(self, arguments, word, environment=None):
        done = subprocess.run([*LAUNCH, "--launcher", "yarn", *arguments, "-n", "1", "true"], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **(environment or {})})
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(word, " ".join(done.stderr.split()))
        self.assertNotIn("Traceback", done.stderr)

    def test_dry_run_hides_the_token(self):
        done = subprocess.run([*LAUNCH, "--launcher", "yarn", "--resource-manager", "http://rm:8088", "-n", "1", "--dry-run", "true"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0)
        first, _, rest = done.stdout.partition("\n")
        self.assertEqual(first, "POST http://rm:8088/app/v1/services")
        service, _, processes = rest.partition("# on this machine: scheduler\n")
        check_service(json.loads(service))
        self.assertRegex(processes, r"DMLC_ROLE=worker .* true\n\Z")
        self.assertNotRegex(done.stdout, r"[0-9a-f]{64}")


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
