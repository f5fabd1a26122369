"""A file of hosts, one a line: host[:port] [slots=N] [user=U] [interface=I]; # begins a comment."""
from dataclasses import dataclass

from .addresses import split_port
from .errors import UsageError


@dataclass(frozen=True)
class HostLine:
    name: str
    port: int = None       # sshd's port
    slots: int = 1         # workers that it gets before the next host gets one
    user: str = None
    interface: str = None  # DMLC_INTERFACE there

    def target(self):
        """As ssh takes it."""
        return f"{self.user}@{self.name}" if self.user else self.name


def parse_line(text):
    """None for a line without a host."""
    if "\0" in text:
        raise ValueError("it has a byte 0; is the file in UTF-16? it must be in UTF-8")
    words = text.partition("#")[0].split()
    if not words:
        return None
    name, port = split_port(words[0])
    if not name or name.startswith("-") or "@" in name:
        raise ValueError(f"'{words[0]}' is no host; user=U names another user")
    values = {}
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if not equals or not value or key not in ("slots", "user", "interface"):
            raise ValueError(f"'{word}' is none of slots=N, user=U, interface=I")
        if key in values:
            raise ValueError(f"{key} is said twice")
        values[key] = value
    if "slots" in values:
        if not (values["slots"].isascii() and values["slots"].isdigit() and 1 <= int(values["slots"]) <= 65536):
            raise ValueError(f"slots is '{values['slots']}'; it must be from 1 to 65536")
        values["slots"] = int(values["slots"])
    if values.get("user", "").startswith("-"):
        raise ValueError(f"'{values['user']}' is no user")
    return HostLine(name, port, **values)


def parse(text, path):
    hosts, seen = [], {}
    for number, line in enumerate(text.split("\n"), 1):
        try:
            host = parse_line(line)
            if host is None:
                continue
            if (host.name, host.port) in seen:
                raise ValueError(f"'{host.name}' is there already, in line {seen[host.name, host.port]}; slots=N gives it more")
        except ValueError as error:
            raise UsageError(f"{path}:{number}: {error}") from error
        seen[host.name, host.port] = number
        hosts.append(host)
    if not hosts:
        raise UsageError(f"{path}: no hosts; a line is host[:port] [slots=N] [user=U] [interface=I]")
    return hosts


def read(path):
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            return parse(file.read(), path)
    except OSError as error:
        raise UsageError(f"--hostfile {path}: {error.strerror}") from error
