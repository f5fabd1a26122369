// Addresses as text, and the choice of the address by which other hosts reach this one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice::transport {

// Checks the syntax of `address`; fails with kInvalidArgument. Valid are "tcp://10.0.0.1:9000",
// "tcp://[::1]:0", "tcp://host:9000" and "ipc:///tmp/x". libzmq's own check takes port 99999 for 34463.
Status ValidateAddress(const std::string& address);

// Returns "tcp://host:port", and adds brackets around an IPv6 host that has none.
std::string TcpAddress(const std::string& host, uint16_t port);

// Returns the numeric address of the scheduler's host. `host` may be a name; a failure contains it. Names are
// resolved here because libzmq cannot bind to a name, and retries an unknown one for ever without an error.
Result<std::string> ResolveScheduler(const std::string& host);

// Returns whether `host`, a numeric address, belongs to this host, so that a socket can be bound to it.
bool IsOwnAddress(const std::string& host);

struct InterfaceAddress {
  std::string interface;  // "eth0"
  std::string address;    // numeric; a link-local IPv6 address carries its scope: "fe80::1%eth0"
  bool operator==(const InterfaceAddress&) const = default;
};
// Returns the addresses of all interfaces that are up, in the system's order.
std::vector<InterfaceAddress> LocalAddresses();

struct HostPreferences {
  std::string node_host;       // DMLC_NODE_HOST: overrides the other fields; may be a name
  std::string interface;       // DMLC_INTERFACE: an interface's name, or else the beginning of one
  std::string scheduler_host;  // without both of these the route to this host decides; may be a name
};
struct HostChoice {
  std::string host;     // numeric
  std::string why;      // the reason: "DMLC_NODE_HOST", "DMLC_INTERFACE: eth0", "route to the scheduler"
  std::string warning;  // says that other hosts may not reach it (a link-local address); or empty
  bool operator==(const HostChoice&) const = default;
};
// Chooses the address that this node announces. The failure for a wrong interface lists those that
// exist; the failure for a scheduler's host that cannot be resolved or reached names it.
Result<HostChoice> ChooseHost(const HostPreferences& preferences);

// Returns the numeric address at the other end of the TCP connection `fd`; "nobody" when it has closed.
std::string PeerHost(int fd);

// The part of ChooseHost that asks the system nothing: chooses among `local`, this host's addresses, one of
// the interface `wanted`. IPv4 comes before IPv6 unless `prefer_ipv6`; link-local addresses come last.
Result<HostChoice> ChooseOnInterface(const std::string& wanted, const std::vector<InterfaceAddress>& local,
                                     bool prefer_ipv6);

}  // namespace sluice::transport
