"""--launcher slurm: srun starts an agent for each process, inside the allocation that launch.py runs in, else in a batch job of its own."""
import contextlib
import math
import os
import shlex

from ..environment import shell_line
from ..errors import LaunchError, UsageError
from ..agent_port import TOKEN
from .callers import Callers
from .tools import GLANCE, PARTING, PATIENCE, Tool, run, submit

LONGEST_SIGNAL = 65535  # seconds that sbatch --signal takes


def asked_for(resources):
    """srun's and sbatch's words for a task."""
    words = []
    if resources.cores is not None:
        words.append(f"--cpus-per-task={resources.cores}")
    if resources.memory_mb is not None:
        words.append(f"--mem-per-cpu={-(-resources.memory_mb // (resources.cores or 1))}M")
    if resources.gpus is not None:
        words.append(f"--gpus-per-task={resources.gpus}")
    return words


class Slurm(Callers):
    name = "slurm"
    takes = Callers.takes | {"queue", "job_name"}
    shares_hosts, takes_memory = False, True

    def check(self):
        super().check()
        self.inside = "SLURM_JOB_ID" in os.environ
        self.starts_at_once = self.inside
        if self.inside:
            self.refuse("--queue", self.options.queue)
        self._tools, self._batch_job = [], None

    def groups(self):
        """(tasks, resources, role or None) of each kind of task."""
        server, worker = self.job.server_resources, self.job.worker_resources
        if server == worker:
            return [(self.count(), worker, None)]
        return [(self.job.num_servers, server, "server"), (self.job.num_workers, worker, "worker")]

    def task(self, role):
        return self.agent(*(["--role", role] if role else []))

    # --- In an allocation: a step for each kind ---

    def step(self, count, resources, role):
        # Without a word about cores, tasks share those of the allocation.
        words = asked_for(resources) or ["--overcommit"]
        return ["srun", f"--ntasks={count}", "--distribution=cyclic", "--kill-on-bad-exit=0", "--export=ALL", "--unbuffered", "--overlap", *words,
                *(["--exact"] if role else []), *self.task(role)]

    # --- Else: a batch job, one of two components where kinds differ (a "heterogeneous job": all or nothing, on nodes of their own) ---

    def batch_script(self):
        groups = self.groups()
        lines = ["#!/bin/sh"]
        for index, (count, resources, _) in enumerate(groups):
            lines += ["#SBATCH hetjob"] if index else []
            lines.append(f"#SBATCH --ntasks={count} " + " ".join(asked_for(resources)))
        parts = [(["--het-group", str(index)] if len(groups) > 1 else []) + ["--kill-on-bad-exit=0", "--export=ALL", "--overcommit", "--distribution=cyclic",
                                                                            *asked_for(resources), *self.task(role)]
                 for index, (_, resources, role) in enumerate(groups)]
        lines.append("exec srun " + " : ".join(shlex.join(part) for part in parts))
        return "\n".join(lines) + "\n"

    def batch(self):
        where = os.path.join(os.path.abspath(self.job.log_dir), "slurm-%j.log") if self.job.log_dir else "/dev/null"
        # Before the time limit; scancel and preemption send SIGTERM by themselves.
        signal = [f"--signal=TERM@{min(math.ceil(self.job.grace), LONGEST_SIGNAL)}"] if self.job.grace else []
        return ["sbatch", "--parsable", f"--job-name={self.options.job_name or 'sluice'}", f"--output={where}", "--export=ALL", *signal,
                *([f"--partition={self.options.queue}"] if self.options.queue else [])]

    # --- Coming and going ---

    def begin(self, supervisor):
        os.environ[TOKEN] = self.token
        try:
            if self.inside:
                supervisor.guard_requests.add(PATIENCE)
                self._tools = [Tool(self.step(*group), dict(os.environ), supervisor.events.put) for group in self.groups()]
            else:
                self._batch_job = submit(self.batch(), "--launcher slurm", "scancel", supervisor, self.batch_script())
        finally:
            del os.environ[TOKEN]

    def status(self):
        if self.inside:
            return "waiting for those that srun starts"
        try:
            state = run(["squeue", "--noheader", "--jobs", self._batch_job, "--format=%T (%r)"], "the job's state", asked_to_end=self.asked_to_end,
                        deadline=GLANCE).split("\n")[0]
        except UsageError as error:
            if "Invalid job id" not in str(error):
                return str(error)
            state = ""  # long gone
        if not state.startswith(("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING")):
            raise LaunchError(f"Slurm's job {self._batch_job} has ended before all its processes came: {state or 'squeue no longer knows it'}; --log-dir keeps what it printed")
        return f"Slurm's job {self._batch_job} is {state}"

    def children(self):
        return {tool.process.pid for tool in self._tools}

    def cancel(self):
        super().cancel()
        for tool in self._tools:
            tool.end()
        if self._batch_job:
            with contextlib.suppress(UsageError):  # it has ended by itself
                run(["scancel", self._batch_job], "the end", deadline=PARTING)

    def beginning(self):
        if self.inside:
            return [shell_line({TOKEN: self.token}, self.step(*group)) for group in self.groups()]
        return [shell_line({TOKEN: self.token}, self.batch()) + " <<'EOF'", *self.batch_script().splitlines(), "EOF"]
