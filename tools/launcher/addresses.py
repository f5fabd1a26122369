"""This machine's addresses, and hosts with ports as texts."""
import contextlib
import fcntl
import ipaddress
import socket
import struct

from .errors import UsageError

SIOCGIFADDR = 0x8915  # <linux/sockios.h>
IF_INET6 = "/proc/net/if_inet6"


def by_interface():
    """{interface: [address]}, IPv4 before IPv6; of link-local ones with their interface: fe80::1%eth0."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            found[name] = []
            with contextlib.suppress(OSError):  # has none
                answer = fcntl.ioctl(probe, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                found[name].append(socket.inet_ntoa(answer[20:24]))
    with contextlib.suppress(OSError), open(IF_INET6, encoding="ascii") as file:
        for line in file:
            digits, _, _, _, _, name = line.split()
            address = ipaddress.IPv6Address(int(digits, 16))
            found.setdefault(name, []).append(f"{address}%{name}" if address.is_link_local else str(address))
    return found


def is_link_local(address):
    """Whether it means something on one link alone: an IPv6 one to processes of this machine alone, as it names an interface here."""
    return ipaddress.ip_address(address.partition("%")[0]).is_link_local


def leads_here(address):
    """From other machines."""
    return "%" not in address


def of_interface(wanted, known):
    """Returns the addresses of the interface of that name, else of those that begin so (DMLC_INTERFACE's rule)."""
    names = [wanted] if wanted in known else [name for name in known if name.startswith(wanted)]
    addresses = [address for name in names for address in known[name]]
    if not addresses:
        raise UsageError(f"DMLC_INTERFACE is {wanted}, which no interface with an address is called; there are {', '.join(name for name in sorted(known) if known[name])}")
    usable = [address for address in addresses if leads_here(address)]
    if not usable:
        raise UsageError(f"DMLC_INTERFACE is {wanted}, which has a link-local address alone ({addresses[0]}), by which no other host reaches this one; "
                         "give the interface another address, or choose another interface")
    return sorted(usable, key=is_link_local)


def is_own(host):
    """Whether it is one of this machine's, numeric or a name of one."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True


def own(host_ip=None, interface=None):
    """Where others may reach this machine, the likeliest first."""
    if host_ip:
        return [host_ip]
    known = by_interface()
    if interface:
        return of_interface(interface, known)
    addresses = [address for each in known.values() for address in each if leads_here(address)]
    far = [address for address in addresses if not ipaddress.ip_address(address).is_loopback]
    return sorted(far, key=lambda address: (is_link_local(address), ":" in address)) or addresses


def resolve(host):
    """Numeric; None where nobody knows it."""
    try:
        return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]
    except OSError:
        return None


def with_port(host, port):
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_port(text):
    """(host, port or None) of host, host:port, [v6]:port or a bare IPv6 address."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"'{text}' is no [address]:port")
        return host, port_of(rest[1:]) if rest else None
    if text.count(":") > 1:
        return text, None
    host, colon, port = text.partition(":")
    return host, port_of(port) if colon else None


def port_of(text):
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise ValueError(f"'{text}' is no port; it must be from 1 to 65535")
    return int(text)
