"""A job's pods as kubectl tells of them: their output, their ends, what keeps them from starting."""
import json
import math
import queue
import re
import subprocess
import threading
import time
from dataclasses import dataclass

from ..errors import LaunchError
from ..members import Member, name_of
from ..messages import say
from ..rendezvous import listed

REPORT = 10.0
# What a container waits for that will not come by itself.
UNSTARTABLE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "RunContainerError")
SILENT_TRIES, SILENT_PAUSE = 5, 2.0  # kubectl that ends without a word about pods; seconds
STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")  # as --timestamps writes it: RFC 3339
LAST_WORDS = 10.0  # seconds for a pod's log to end after the pod


@dataclass
class WatchEnded:
    """kubectl's stream of pods is over: an API server ends each after an hour at the latest."""
    told: bool  # whether the stream has told of any pod
    why: str


class Host:
    """For Member: a node of the cluster."""
    is_here = False

    def __init__(self, name):
        self.name = name


class Log:
    """Follows a pod's output from a thread. A stream that ends before the pod does is begun again after its last line."""

    def __init__(self, kubectl, pod, on_line):
        self._kubectl, self._pod, self._on_line = kubectl, pod, on_line
        self._last, self._pod_has_ended = b"", threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"log of {pod}", daemon=True)
        self._thread.start()

    def end(self):
        """Is called when the pod has ended. Waits for its last lines."""
        self._pod_has_ended.set()
        self._thread.join(LAST_WORDS)

    def _follow(self):
        while True:
            self._read("--follow")
            cut = time.monotonic()
            if self._pod_has_ended.wait(SILENT_PAUSE):
                break
        if time.monotonic() > cut + 1.0:  # it ended before the pod did
            self._read()

    def _read(self, *flags):
        since = [f"--since-time={self._last.decode()}"] if self._last else []
        with subprocess.Popen(self._kubectl("logs", "--timestamps", *flags, *since, self._pod), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as reader:
            for line in reader.stdout:
                stamp, _, text = line.partition(b" ")
                if not STAMP.fullmatch(stamp):
                    self._on_line(line)  # kubectl's own words
                elif sortable(stamp) > sortable(self._last):
                    self._last = stamp
                    self._on_line(text)


def sortable(stamp):
    """Fractions of seconds may lack their last zeros."""
    whole, _, fraction = stamp.rstrip(b"Z").partition(b".")
    return whole, fraction.ljust(9, b"0")


class Pods:
    def __init__(self, launcher, supervisor):
        self._launcher, self._supervisor = launcher, supervisor
        self._members, self._logs = {}, {}  # by the pod's name
        self._expected = {name_of(role, rank): role for role, count in
                          (("scheduler", 1), ("server", launcher.job.num_servers), ("worker", launcher.job.num_workers)) for rank in
                          (range(count) if role != "scheduler" else [None])}
        self._states, self._rest_is_created, self._silent = {}, False, 0

    def watch(self):
        """The job's exit code."""
        self._follow_pods()
        started, next_report = time.monotonic(), time.monotonic() + REPORT
        limit = self._launcher.options.timeout
        over = started + limit if limit else math.inf
        while True:
            try:
                event = self._supervisor.events.get(timeout=max(0.0, min(next_report, over) - time.monotonic()))
            except queue.Empty:
                waiting, now = self._waiting(), time.monotonic()
                if waiting and now >= over:
                    raise LaunchError(f"not all pods run within {limit:.0f} s: {waiting}")
                over = math.inf if now >= over else over
                if now >= next_report:
                    next_report += REPORT
                    if waiting:
                        say(waiting)
                continue
            if isinstance(event, int):
                return self._supervisor.end_by(event, set())
            if isinstance(event, WatchEnded):
                self._watch_again(event)
            if isinstance(event, dict):
                code = self._take(event)
                if code is not None:
                    return code

    def _watch_again(self, ended):
        """Unless kubectl says nothing at all, time and again."""
        self._silent = 0 if ended.told else self._silent + 1
        if self._silent >= SILENT_TRIES:
            raise LaunchError("kubectl no longer tells of the pods: " + ended.why)
        timer = threading.Timer(0.0 if ended.told else SILENT_PAUSE, self._follow_pods)
        timer.daemon = True
        timer.start()

    def _follow_pods(self):
        command = self._launcher.kubectl("get", "pods", "--selector", f"sluice.dev/job={self._launcher.full_name}", "--watch", "--output=json")
        self._watching = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        threading.Thread(target=self._read_pods, name="pods", daemon=True).start()

    def _read_pods(self):
        """Objects follow each other without separators."""
        decoder, text, told = json.JSONDecoder(), "", False
        for line in self._watching.stdout:
            text += line
            if line.rstrip() != "}":
                continue
            try:
                pod, end = decoder.raw_decode(text)
            except ValueError:
                continue  # not whole yet
            text = text[end:].lstrip()
            for each in pod.get("items", [pod]):
                self._supervisor.events.put(each)
            told = True
        why = self._watching.stderr.read().strip() or f"exit code {self._watching.wait()}"
        self._supervisor.events.put(WatchEnded(told, why))

    def _take(self, pod):
        """The job's exit code, once it is known."""
        labels, annotations = pod["metadata"].get("labels", {}), pod["metadata"].get("annotations", {})
        role = labels.get("sluice.dev/role")
        rank = None if role == "scheduler" else int(annotations.get("batch.kubernetes.io/job-completion-index", 0))
        name, status = name_of(role, rank), pod.get("status", {})
        container = (status.get("containerStatuses") or [{}])[0].get("state", {})
        self._states[name] = status.get("phase", "Pending"), container.get("waiting", {}).get("reason", "")
        if container.get("waiting", {}).get("reason") in UNSTARTABLE:
            waiting = container["waiting"]
            raise LaunchError(f"{name} (pod {pod['metadata']['name']}) cannot start: {waiting['reason']}: {waiting.get('message', '')}")
        if "running" in container or "terminated" in container:
            self._follow_log(pod["metadata"]["name"], role, rank, pod["spec"].get("nodeName", "?"))
            if role == "scheduler" and not self._rest_is_created:
                self._rest_is_created = True
                self._launcher.create(self._launcher.further_manifests())
        if "terminated" in container:
            return self._take_end(name, pod, container["terminated"])
        if status.get("phase") == "Failed":  # evicted, say: no container ended
            raise LaunchError(f"{name} (pod {pod['metadata']['name']}) failed: {status.get('reason', '')} {status.get('message', '')}")
        return None

    def _take_end(self, name, pod, terminated):
        member, follower = self._members[pod["metadata"]["name"]], self._logs[pod["metadata"]["name"]]
        code = terminated.get("exitCode", 1)
        self._states[name] = "Ended", ""
        follower.end()
        if code != 0:
            member.echo.end(failed=True)
            self._supervisor.output.be_quiet()
            last, lines = member.what_it_said()
            say(f"{name} (pod {pod['metadata']['name']} on {member.host.name}) ended with exit code {code} ({terminated.get('reason', 'Error')}); {last}")
            self._supervisor.output.last_lines(b"  | ", lines)
            say(f"the job failed; logs are in {self._supervisor.log_dir}")
            return code
        workers = [each for each, role in self._expected.items() if role == "worker"]
        return 0 if all(self._states.get(each, ("",))[0] == "Ended" for each in workers) else None

    def _follow_log(self, pod, role, rank, node):
        if pod in self._members:
            return
        member = Member(role, rank, Host(node), self._supervisor.log_dir, self._supervisor.output, lambda _: None)
        self._members[pod] = member
        self._logs[pod] = Log(self._launcher.kubectl, pod, member.take_line)

    def _waiting(self):
        """Who does not run yet, and why; empty when all do."""
        late = [(name, *self._states.get(name, ("not created", ""))) for name in self._expected]
        late = [f"{name} ({state}{': ' + reason if reason else ''})" for name, state, reason in late if state not in ("Running", "Ended", "Succeeded")]
        return "" if not late else f"waiting for {listed(late)}"
