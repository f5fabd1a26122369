"""--launcher kubernetes: a Job for each role, found through a headless service. kubectl talks to the cluster.

Pods, Jobs, Services: https://kubernetes.io/docs/reference/kubernetes-api/ (Indexed Jobs need 1.24).
"""
import json
import math
import re
import shlex

from ..channel import portable
from ..environment import HIDDEN, shown
from ..errors import UsageError
from ..job import ports_of, require_ports, threads_of
from ..messages import say
from .base import Launcher
from .pods import Pods
from .tools import PARTING, run

PORT = 9091
LABEL = "sluice.dev/job"
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
KINDS = "jobs,services,secrets"


def escaped(word):
    """As a container's command: Kubernetes replaces $(NAME) there, and takes $$ for $."""
    try:
        word.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"--launcher kubernetes: {word!r} is no UTF-8 text, which a manifest is") from error
    return word.replace("$", "$$")


class Kubernetes(Launcher):
    name = "kubernetes"
    takes = frozenset({"job_name"})
    flags = {"--image": ("NAME", "the containers' image"), "--namespace": ("NAME", "where the job goes")}
    shares_hosts, takes_memory = False, True

    def check(self):
        super().check()
        self.image, self.namespace = (self.options.own.get(flag) for flag in self.flags)
        if not self.image:
            raise UsageError("--launcher kubernetes needs --image NAME, in which the programs are")
        prefix = self.options.job_name or "sluice"
        if not re.fullmatch(r"[a-z]([-a-z0-9]{0,30}[a-z0-9])?", prefix):
            raise UsageError(f"--jobname is '{prefix}'; Kubernetes wants at most 32 small letters, digits and hyphens, a letter first")
        self.full_name = f"{prefix}-{self.job.id.removeprefix('job-')}"
        self.port = self.job.scheduler_port or PORT
        require_ports(self.job, 1)

    # --- Manifests ---

    def labels(self, role):
        return {LABEL: self.full_name, "sluice.dev/role": role}

    def metadata(self, role, suffix=None):
        metadata = {"name": f"{self.full_name}-{suffix or role}", "labels": self.labels(role)}
        if self.namespace:
            metadata["namespace"] = self.namespace
        return metadata

    def secret(self, value):
        return {"apiVersion": "v1", "kind": "Secret", "metadata": self.metadata("scheduler", "secret"), "type": "Opaque", "stringData": {"SLUICE_JOB_SECRET": value}}

    def service(self):
        return {"apiVersion": "v1", "kind": "Service", "metadata": self.metadata("scheduler"),
                "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": self.labels("scheduler"),
                         "ports": [{"name": "scheduler", "port": self.port, "protocol": "TCP"}]}}

    def variables(self, role):
        values = self.job.environment(role, None, (f"{self.full_name}-scheduler", self.port), far=True)
        values.pop("SLUICE_JOB_SECRET")
        values.update(threads_of(self.job.resources(role)))
        if role == "server":  # alone in its pod
            values.update(ports_of(self.job.server_port, 0))
        values["DMLC_USE_KUBERNETES"] = "1"
        variables = [{"name": name, "value": escaped(value)} for name, value in sorted(values.items())]
        variables.append({"name": "SLUICE_JOB_SECRET", "valueFrom": {"secretKeyRef": {"name": f"{self.full_name}-secret", "key": "SLUICE_JOB_SECRET"}}})
        if role != "scheduler":
            variables.append({"name": "DMLC_RANK", "valueFrom": {"fieldRef": {"fieldPath": INDEX}}})
        return variables

    def command(self, role):
        stock = {"scheduler": ["sluice_scheduler"], "server": self.job.server_command or ["sluice_server"]}
        return [escaped(word) for word in stock.get(role, self.job.worker_command)]

    def container(self, role):
        container = {"name": role, "image": self.image, "command": self.command(role), "env": self.variables(role)}
        if role == "scheduler":
            container["ports"] = [{"containerPort": self.port, "protocol": "TCP"}]
        if amounts := quantities(self.job.resources(role)):
            container["resources"] = {"requests": amounts, "limits": amounts}
        return container

    def pod(self, role):
        spec = {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [self.container(role)]}
        if self.job.grace is not None:
            spec["terminationGracePeriodSeconds"] = math.ceil(self.job.grace)
        return spec

    def role_job(self, role, count):
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": self.metadata(role),
                "spec": {"completions": count, "parallelism": count, "completionMode": "Indexed", "backoffLimit": 0, "ttlSecondsAfterFinished": 3600,
                         "template": {"metadata": {"labels": self.labels(role)}, "spec": self.pod(role)}}}

    def first_manifests(self, secret):
        """Until the scheduler has an address, its name has none, and who looks for it finds nobody."""
        return [self.secret(secret), self.service(), self.role_job("scheduler", 1)]

    def further_manifests(self):
        return [self.role_job("server", self.job.num_servers), self.role_job("worker", self.job.num_workers)]

    @staticmethod
    def listed(manifests):
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": portable(manifests)}, indent=2)

    def dry_run(self):
        """Both calls."""
        command = shlex.join(self.kubectl("create", "-f", "-"))
        return [line for manifests in (self.first_manifests(HIDDEN), self.further_manifests())
                for line in (f"{command} <<'EOF'", *self.listed(with_secrets_hidden(manifests)).splitlines(), "EOF")]

    # --- Running ---

    def kubectl(self, *arguments):
        return ["kubectl", *(["--namespace", self.namespace] if self.namespace else []), *arguments]

    def deletion(self):
        return self.kubectl("delete", KINDS, "--selector", f"{LABEL}={self.full_name}", "--wait=false", "--ignore-not-found", "--cascade=background")

    def create(self, manifests):
        run(self.kubectl("create", "-f", "-"), "--launcher kubernetes", self.listed(manifests), self._asked_to_end)

    def supervise(self, supervisor):
        """In place of agents: the cluster tells of its pods."""
        self._asked_to_end = supervisor.asked_to_end
        supervisor.guard_requests.add(self.deletion())
        self._created = True  # or some of it, when it fails
        self.create(self.first_manifests(self.job.secret))
        pods = Pods(self, supervisor)
        return pods.watch()

    def cancel(self):
        if getattr(self, "_created", False):
            try:
                run(self.deletion(), "the end", deadline=PARTING)
            except UsageError as error:
                say(f"{error}; what this job made may still be there: {shlex.join(self.deletion())} deletes it")


def with_secrets_hidden(manifests):
    for manifest in manifests:
        for container in manifest["spec"]["template"]["spec"]["containers"] if manifest["kind"] == "Job" else ():
            for variable in container["env"]:
                if "value" in variable:
                    variable["value"] = shown(variable["name"], variable["value"])
    return manifests


def quantities(resources):
    amounts = {}
    if resources.cores is not None:
        amounts["cpu"] = str(resources.cores)
    if resources.memory_mb is not None:
        amounts["memory"] = f"{resources.memory_mb}Mi"
    if resources.gpus is not None:
        amounts["nvidia.com/gpu"] = str(resources.gpus)
    return amounts
