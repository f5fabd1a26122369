"""--launcher sge: Grid Engine's array jobs, one for the servers and one for the workers, start an agent for each process."""
import contextlib
import os
import shlex

from ..errors import LaunchError, UsageError
from .callers import Callers
from .tools import GLANCE, PARTING, run, submit


def tasks_of(text):
    """How many tasks a row of qstat is about: 3, 1-6:1 or 2,5-7:1."""
    count = 0
    for part in text.split(","):
        first, _, last = part.partition(":")[0].partition("-")
        count += int(last or first) - int(first) + 1
    return count


class Sge(Callers):
    name = "sge"
    takes = Callers.takes | {"queue", "job_name"}
    shares_hosts, takes_memory, starts_at_once = False, True, False

    def check(self):
        super().check()
        self._jobs = []
        # qstat shows a job's environment to everybody: the token is in a file that its owner alone may read.
        self._token_file = os.path.join(self.job.folder, f".sluice-{self.job.id}")

    def qsub(self, role, count):
        resources = self.job.resources(role)
        log = os.path.join(os.path.abspath(self.job.log_dir), "sge-$JOB_NAME-$TASK_ID.log") if self.job.log_dir else "/dev/null"
        words = ["qsub", "-terse", "-cwd", "-b", "y", "-shell", "n", "-r", "n", "-j", "y", "-o", f":{log}", "-t", f"1-{count}",
                 "-N", f"{self.options.job_name or 'sluice'}-{role}"]
        words += ["-notify"] if self.job.grace else []  # SIGUSR2 to the agent, the queue's notify time before SIGKILL
        words += ["-q", self.options.queue] if self.options.queue else []
        words += ["-pe", "smp", str(resources.cores)] if resources.cores is not None else []
        words += ["-l", f"h_vmem={-(-resources.memory_mb // (resources.cores or 1))}M"] if resources.memory_mb is not None else []
        words += ["-l", f"gpu={resources.gpus}"] if resources.gpus is not None else []
        return [*words, *self.agent("--role", role, "--token-file", self._token_file)]

    def commands(self):
        return [self.qsub("server", self.job.num_servers), self.qsub("worker", self.job.num_workers)]

    def begin(self, supervisor):
        try:
            descriptor = os.open(self._token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise UsageError(f"--launcher sge keeps a file in the working folder, which its hosts share: {self._token_file}: {error.strerror}") from error
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(self.token)
        supervisor.guard_requests.add(["rm", "-f", self._token_file])
        for command in self.commands():
            self._jobs.append(submit(command, "--launcher sge", "qdel", supervisor))

    def gather(self, supervisor):
        try:
            return super().gather(supervisor)
        finally:
            self._remove_token()

    def _remove_token(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._token_file)

    def status(self):
        states = {}
        try:
            lines = run(["qstat"], "the jobs' state", asked_to_end=self.asked_to_end, deadline=GLANCE).splitlines()
        except UsageError as error:
            return str(error)
        for fields in (line.split() for line in lines):
            if fields and fields[0] in self._jobs:
                states[fields[4]] = states.get(fields[4], 0) + tasks_of(fields[-1])
        which = f"Grid Engine's jobs {' and '.join(self._jobs)}"
        if failed := [state for state in states if "E" in state]:
            raise LaunchError(f"{which} cannot run ({failed[0]}); qstat -explain E -j tells why")
        if not states:
            raise LaunchError(f"{which} have ended before all their processes came; --log-dir keeps what they printed")
        return f"{which}: " + ", ".join(f"{count} x {state}" for state, count in states.items())

    def cancel(self):
        super().cancel()
        self._remove_token()
        if self._jobs:
            with contextlib.suppress(UsageError):
                run(["qdel", *self._jobs], "the end", deadline=PARTING)

    def beginning(self):
        return [f"(a file {self._token_file} with the job's token, for its owner alone)", *(shlex.join(command) for command in self.commands())]
