"""--launcher local: every process on this machine."""
from ..placement import over_hosts
from .base import HERE, Launcher


class Local(Launcher):
    name = "local"
    takes = frozenset({"host_ip"})

    def gather(self, supervisor):
        return [supervisor.here]

    def scheduler_addresses(self, hosts):
        return [self.options.host_ip or "127.0.0.1"]

    def dry_run(self):
        return self.processes_by_host([HERE], over_hosts(self.job.num_servers, self.job.num_workers, [1]))
