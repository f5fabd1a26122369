"""Which process runs on which host: pure arithmetic."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    role: str
    rank: int
    index: int  # the host's place in the list


def in_turn(count, slots):
    """Indices of hosts: each gets as many as it has slots before the next; all over again when none is left."""
    turns = [index for index, number in enumerate(slots) for _ in range(number)]
    return [turns[i % len(turns)] for i in range(count)]


def over_hosts(num_servers, num_workers, slots):
    """Workers by slots; servers one to a host in turn, so that no host's network carries more of them than another's."""
    servers = in_turn(num_servers, [1] * len(slots))
    workers = in_turn(num_workers, slots)
    return [Place("server", rank, index) for rank, index in enumerate(servers)] + [Place("worker", rank, index) for rank, index in enumerate(workers)]


def over_seats(num_servers, num_workers, seats):
    """One process to a seat. `seats`: (host, role or None) of each. Hosts take turns, first for servers, then for workers."""
    by_host = {}
    for index, (host, _) in enumerate(seats):
        by_host.setdefault(host, []).append(index)
    turns = []
    while any(by_host.values()):
        turns += [indices.pop(0) for indices in by_host.values() if indices]
    places = []
    for role, count in (("server", num_servers), ("worker", num_workers)):
        taken = [index for index in turns if seats[index][1] in (None, role)][:count]
        turns = [index for index in turns if index not in set(taken)]
        places += [Place(role, rank, index) for rank, index in enumerate(taken)]
    return places
