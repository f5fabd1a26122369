"""--launcher mpi: Open MPI's or MPICH's mpirun starts an agent for each process."""
import collections
import os
import shutil
from dataclasses import replace

from ..environment import shell_line
from ..errors import UsageError
from ..agent_port import TOKEN
from ..placement import over_hosts, over_seats
from .callers import Callers
from .tools import PATIENCE, Tool, run


def flavour(asked_to_end=None):
    """"openmpi" or "mpich", as mpirun says itself."""
    if shutil.which("mpirun") is None:
        raise UsageError("--launcher mpi: mpirun: No such file or directory; Open MPI or MPICH has it")
    text = run(["mpirun", "--version"], "--launcher mpi", asked_to_end=asked_to_end, deadline=30.0)
    if "Open MPI" in text or "OpenRTE" in text:
        return "openmpi"
    if "HYDRA" in text or "Hydra" in text or "MPICH" in text:
        return "mpich"
    raise UsageError(f"--launcher mpi: mpirun is neither Open MPI's nor MPICH's: {text.strip().splitlines()[:1]}")


class Mpi(Callers):
    name = "mpi"
    takes = Callers.takes | {"hosts"}

    def check(self):
        super().check()
        for host in self.options.hosts or ():
            if host.user or host.port or host.interface:
                raise UsageError(f"mpirun takes names and slots alone of a hostfile, and {host.name} has more; users and ports go to "
                                 "~/.ssh/config, an interface to --env DMLC_INTERFACE=...")
        self._tool = self.asked_to_end = None

    def agents_of_hosts(self):
        """{host: how many}: as many as processes are to run there."""
        places = over_hosts(self.job.num_servers, self.job.num_workers, [host.slots for host in self.options.hosts or ()] or [1])
        counts = collections.Counter(place.index for place in places)
        return {host.name: counts[index] for index, host in enumerate(self.options.hosts or ()) if counts[index]}

    def command(self):
        hosts = [f"{name}:{count}" for name, count in self.agents_of_hosts().items()]
        if flavour(self.asked_to_end) == "openmpi":
            words = ["mpirun", "-n", str(self.count()), "--bind-to", "none", "-x", TOKEN]
            words += ["--allow-run-as-root"] if os.geteuid() == 0 else []
            words += ["--map-by", "slot", "-H", ",".join(hosts)] if hosts else ["--map-by", "node", "--oversubscribe"]
        else:
            words = ["mpirun", "-n", str(self.count()), "-genvlist", TOKEN]
            words += ["-hosts", ",".join(hosts)] if hosts else []
        return [*words, *self.agent()]

    def expected_hosts(self):
        return list(self.agents_of_hosts())

    def begin(self, supervisor):
        supervisor.guard_requests.add(PATIENCE)
        self._tool = Tool(self.command(), {**os.environ, TOKEN: self.token}, supervisor.events.put)

    def status(self):
        said = self._tool.said() if self._tool else ""
        return super().status() + (f"; mpirun says: {said}" if said else "")

    def children(self):
        return {self._tool.process.pid} if self._tool else set()

    def cancel(self):
        super().cancel()
        if self._tool:
            self._tool.end()

    def dry_run(self):
        counts = self.agents_of_hosts()
        if not counts:
            return super().dry_run()
        names = list(counts)
        seats = [index for index, name in enumerate(names) for _ in range(counts[name])]
        places = [replace(place, index=seats[place.index])
                  for place in over_seats(self.job.num_servers, self.job.num_workers, [(index, None) for index in seats])]
        return [*self.beginning(), *self.processes_by_host(names, places)]

    def beginning(self):
        return [shell_line({TOKEN: self.token}, self.command())]
