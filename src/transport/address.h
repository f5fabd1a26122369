// Addresses as texts, and which of this machine's addresses others should use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice::transport {

// "tcp://10.0.0.1:9000", "tcp://[::1]:0", "tcp://host:9000", "ipc:///tmp/x" are sound. libzmq itself takes
// port 99999 for 34463.
Status ValidateAddress(const std::string& address);

// "tcp://host:port", with brackets around an IPv6 host that has none.
std::string TcpAddress(const std::string& host, uint16_t port);

// The numeric address of the scheduler's host, which may be a name; an error that names it otherwise. libzmq
// binds to no names, and says nothing of those that it tries to reach for ever.
Result<std::string> ResolveScheduler(const std::string& host);

// Whether one can listen there: a numeric address of this machine's.
bool IsOwnAddress(const std::string& host);

struct InterfaceAddress {
  std::string interface;  // "eth0"
  std::string address;    // numeric; a link-local IPv6 address carries its scope: "fe80::1%eth0"
  bool operator==(const InterfaceAddress&) const = default;
};
// Of the interfaces that are up, in the system's order.
std::vector<InterfaceAddress> LocalAddresses();

struct HostPreferences {
  std::string node_host;       // DMLC_NODE_HOST: taken before all others; may be a name
  std::string interface;       // DMLC_INTERFACE: a name, or else the beginning of one
  std::string scheduler_host;  // else the address from which this one is reached; may be a name
};
struct HostChoice {
  std::string host;     // numeric
  std::string why;      // in words: "DMLC_NODE_HOST", "DMLC_INTERFACE: eth0", "route to the scheduler"
  std::string warning;  // that others may not reach it, as a link-local address; or empty
  bool operator==(const HostChoice&) const = default;
};
// A wrong interface is an error that lists those that exist; a scheduler that cannot be resolved or reached
// is one that names it.
Result<HostChoice> ChooseHost(const HostPreferences& wishes);

// Who is at the other end of a TCP connection: numeric, or "nobody" when it is none any more.
std::string PeerHost(int fd);

// The part of it that looks at no machine. IPv4 comes before IPv6, unless `prefer_ipv6`; link-local addresses
// come last.
Result<HostChoice> ChooseOnInterface(const std::string& wanted, const std::vector<InterfaceAddress>& local,
                                     bool prefer_ipv6);

}  // namespace sluice::transport
