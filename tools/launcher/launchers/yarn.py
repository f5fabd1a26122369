"""--launcher yarn: a service of YARN's (Hadoop 3.1 and later) whose containers run an agent for each process.

https://hadoop.apache.org/docs/r3.3.6/hadoop-yarn/hadoop-yarn-site/yarn-service/YarnServiceAPI.html
"""
import getpass
import http.client
import json
import os
import re
import shlex
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree

from ..environment import HIDDEN, without_passwords
from ..errors import Interrupted, UsageError
from ..events import Failed
from ..agent_port import TOKEN
from ..messages import say
from .callers import Callers
from .tools import ANSWER, GLANCE, PARTING, unless_ended

ADDRESS = "yarn.resourcemanager.webapp.address"
HOSTNAME = "yarn.resourcemanager.hostname"  # Hadoop's default of the address is ${it}:8088
PORT = 8088
DEFAULT_MEMORY_MB = 1024
LOOK = 2.0        # seconds between looks at the service's state
PATIENCE = 30.0   # seconds for an answer
LATE = 5.0        # seconds after the end in which a service that was asked for may still come
ASKED, ACCEPTED, UNANSWERED = "asked", "accepted", "unanswered"
ENDED = ("FAILED", "STOPPED", "SUCCEEDED")
# For the guard, once the runner has been killed: of a service that may only be coming.
DELETE = """
import sys, time, urllib.error, urllib.request
end = time.monotonic() + float(sys.argv[2])
while True:
    try:
        urllib.request.urlopen(urllib.request.Request(sys.argv[1], method="DELETE"), timeout=5)
        break
    except urllib.error.HTTPError as error:
        if error.code != 404 or time.monotonic() > end:
            break
        time.sleep(0.2)
"""


class NotThere(UsageError):
    """YARN knows no such service."""


def resource_manager():
    """From Hadoop's configuration."""
    folder = os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")
    if not folder:
        raise UsageError("--launcher yarn needs --resource-manager URL, or HADOOP_CONF_DIR with a yarn-site.xml")
    path = os.path.join(folder, "yarn-site.xml")
    try:
        properties = {each.findtext("name", "").strip(): each.findtext("value", "").strip() for each in xml.etree.ElementTree.parse(path).getroot().iter("property")}
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        raise UsageError(f"{path}: {error}") from error
    address = properties.get(ADDRESS) or (f"{properties[HOSTNAME]}:{PORT}" if properties.get(HOSTNAME) else "")
    address = re.sub(r"\$\{([^}]*)\}", lambda match: properties.get(match[1], match[0]), address)
    if not address or "$" in address:
        raise UsageError(f"{path} has no {ADDRESS}" + (f" that can be read ('{address}')" if address else "") + "; --resource-manager URL names it")
    return "http://" + address


def user():
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # it has no name
        return str(os.getuid())


class Yarn(Callers):
    name = "yarn"
    takes = Callers.takes | {"queue", "job_name"}
    flags = {"--resource-manager": ("URL", "where YARN's REST interface is (default: from HADOOP_CONF_DIR)")}
    shares_hosts, takes_memory, starts_at_once = False, True, False

    def check(self):
        super().check()
        self._url = (self.options.own.get("--resource-manager") or resource_manager()).rstrip("/")
        if not re.match(r"https?://[^/]", self._url):
            raise UsageError(f"--resource-manager is '{self._url}'; it is a URL, such as http://{self._url or 'rm'}:8088")
        if "@" in self._url:
            raise UsageError(f"--resource-manager is '{without_passwords(self._url)}'; YARN's interface takes no user or password in it")
        prefix = (self.options.job_name or "sluice").lower()
        if not re.fullmatch(r"[a-z][-a-z0-9]{0,40}", prefix):
            raise UsageError(f"--jobname is '{prefix}'; YARN wants at most 41 letters, digits and hyphens, a letter first")
        self._service = f"{prefix}-{self.job.id.removeprefix('job-')}"
        self._request = None  # for the service: ASKED, ACCEPTED or UNANSWERED
        self._over = threading.Event()

    def component(self, role, count):
        resources = self.job.resources(role)
        resource = {"cpus": resources.cores or 1, "memory": str(resources.memory_mb or DEFAULT_MEMORY_MB)}
        if resources.gpus is not None:
            resource["additional"] = {"yarn.io/gpu": {"value": resources.gpus}}
        return {"name": role, "number_of_containers": count, "launch_command": shlex.join(self.agent("--role", role)), "resource": resource,
                "restart_policy": "NEVER", "configuration": {"env": {TOKEN: self.token}}}

    def service(self):
        service = {"name": self._service, "version": "1.0.0", "description": "a Sluice job",
                   "components": [self.component("server", self.job.num_servers), self.component("worker", self.job.num_workers)]}
        if self.options.queue:
            service["queue"] = self.options.queue
        return service

    def request(self, method, path, body=None, patience=PATIENCE):
        """The answer's object. UsageError where there is none."""
        try:
            request = urllib.request.Request(self.url_of(path), method=method, data=None if body is None else json.dumps(body).encode(),
                                             headers={"Content-Type": "application/json", "Accept": "application/json"})
            with urllib.request.urlopen(request, timeout=patience) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace").strip()
            kind = NotThere if error.code == http.HTTPStatus.NOT_FOUND else UsageError
            raise kind(f"YARN at {self._url} answers {method} {path or '/'} with {error.code}: {diagnostics(said)}") from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise UsageError(f"YARN at {self._url} cannot be asked: {getattr(error, 'reason', None) or error or type(error).__name__}") from error
        try:
            answer = json.loads(text or b"{}")
        except ValueError as error:
            raise UsageError(f"YARN at {self._url} answers {method} {path or '/'} with no JSON") from error
        if not isinstance(answer, dict):
            raise UsageError(f"YARN at {self._url} answers {method} {path or '/'} with {answer!r:.40}, which is no object")
        return answer

    def url_of(self, path):
        return f"{self._url}/app/v1/services{path}?" + urllib.parse.urlencode({"user.name": user()})

    def begin(self, supervisor):
        supervisor.guard_requests.add(["python3", "-c", DELETE, self.url_of(f"/{self._service}"), str(LATE)])
        self._request = ASKED
        try:
            unless_ended(lambda: self.request("POST", "", self.service()), self.asked_to_end, ANSWER)
        except Interrupted:
            self._request = UNANSWERED
            raise
        self._request = ACCEPTED
        threading.Thread(target=self._watch, args=(supervisor.events.put,), name="yarn", daemon=True).start()

    def _watch(self, tell):
        while not self._over.wait(LOOK):
            state = self.state()
            if state in ENDED:
                return tell(Failed(f"YARN's service {self._service} is {state}"))

    def state(self):
        try:
            return self.request("GET", f"/{self._service}", patience=GLANCE).get("state", "unknown")
        except UsageError as error:
            return str(error)

    def status(self):
        return f"YARN's service {self._service} is {unless_ended(self.state, self.asked_to_end)}"

    def cancel(self):
        super().cancel()
        self._over.set()
        if self._request is not None:
            self._delete()

    def _delete(self):
        """Also a service that may only be coming."""
        end = time.monotonic() + (LATE if self._request == UNANSWERED else 0.0)
        while True:
            try:
                self.request("DELETE", f"/{self._service}", patience=PARTING)
                return
            except NotThere:
                if time.monotonic() > end:
                    break
                time.sleep(0.2)
            except UsageError as error:
                if self._request != ASKED:
                    say(f"{error}; its service {self._service} may still be there")
                return
        if self._request == UNANSWERED:
            say(f"YARN has not said whether it takes the service; should {self._service} come, this deletes it: curl -X DELETE '{self.url_of('/' + self._service)}'")

    def beginning(self):
        self.token = HIDDEN
        return [f"POST {self._url}/app/v1/services", *json.dumps(self.service(), indent=2).splitlines()]


def diagnostics(text):
    try:
        return json.loads(text)["diagnostics"]
    except (ValueError, KeyError, TypeError):
        return text[:200] or "no word"
