// Parses and checks addresses, and chooses the address that a node announces: by DMLC_NODE_HOST, by
// DMLC_INTERFACE, or by the route to the scheduler. Names are resolved by getaddrinfo(3), which may block.
// No state is kept between calls, so all functions are thread-safe. Nodes choose their address at their
// start, on the main thread; loops check the addresses that they bind and connect to.
#include "transport/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include "base/strings.h"

namespace sluice::transport {
namespace {

constexpr std::string_view kTcp = "tcp://", kIpc = "ipc://";
// Any port serves: connect(2) on a UDP socket sends nothing, it only looks up the route.
constexpr const char* kAnyPort = "9";

bool IsIpv6(const std::string& address) {
  return address.find(':') != std::string::npos;
}
// Whether the numeric `address` lies in fe80::/10 (RFC 4291) or 169.254/16 (RFC 3927).
bool IsLinkLocal(const std::string& address) {
  if (!IsIpv6(address)) return address.starts_with("169.254.");
  return address.starts_with("fe") && address.size() > 4 && address[4] == ':' &&
         std::string_view("89ab").find(address[2]) != std::string_view::npos;
}

HostChoice Chosen(std::string host, std::string why) {
  HostChoice choice{std::move(host), std::move(why), ""};
  if (IsLinkLocal(choice.host)) {
    choice.warning =
        StrCat(choice.why, " leads to ", choice.host,
               " alone, a link-local address: only hosts on this link reach it",
               IsIpv6(choice.host) ? ", and only those whose interface there is called as here" : "",
               "; give the interface another address, or choose one by DMLC_INTERFACE or DMLC_NODE_HOST");
  }
  return choice;
}

std::string WithoutBrackets(const std::string& host) {
  return host.size() > 2 && host.front() == '[' && host.back() == ']' ? host.substr(1, host.size() - 2)
                                                                      : host;
}

Result<std::string> Numeric(const sockaddr* address, socklen_t size) {
  char host[NI_MAXHOST];
  const int error = getnameinfo(address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  if (error != 0) return Fail(ErrorCode::kUnavailable, "cannot print an address: ", gai_strerror(error));
  return std::string(host);
}

// Returns the local address that a packet to `to` would carry; empty when there is no route.
std::string SourceAddressFor(const addrinfo& to) {
  const int fd = socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return {};
  sockaddr_storage from{};
  socklen_t size = sizeof from;
  std::string address;
  if (connect(fd, to.ai_addr, to.ai_addrlen) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&from), &size) == 0) {
    if (auto numeric = Numeric(reinterpret_cast<const sockaddr*>(&from), size); numeric.ok()) {
      address = std::move(numeric).value();
    }
  }
  close(fd);
  return address;
}

using Resolved = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// `whose`, and `variable`, the environment variable that names the host, go into the failure's message.
Result<Resolved> Resolve(const std::string& host, const char* whose, const char* variable) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(WithoutBrackets(host).c_str(), kAnyPort, &hints, &found);
  if (error != 0) {
    return Fail(ErrorCode::kInvalidArgument, "cannot resolve ", whose, " '", host, "' (", variable,
                "): ", gai_strerror(error));
  }
  return Resolved(found, &freeaddrinfo);
}

constexpr const char* kSchedulersHost = "the scheduler's host";

Result<std::string> NumericHost(const std::string& host, const char* whose, const char* variable) {
  const auto found = Resolve(host, whose, variable);
  if (!found) return found.failure();
  return Numeric(found.value()->ai_addr, found.value()->ai_addrlen);
}

Result<HostChoice> ChooseByRoute(const std::string& scheduler) {
  const auto found = Resolve(scheduler, kSchedulersHost, "DMLC_PS_ROOT_URI");
  if (!found) return found.failure();
  for (const addrinfo* to = found.value().get(); to != nullptr; to = to->ai_next) {
    if (std::string address = SourceAddressFor(*to); !address.empty()) {
      return Chosen(std::move(address), "route to the scheduler");
    }
  }
  return Fail(ErrorCode::kUnavailable, "no route to the scheduler's host '", scheduler,
              "' (DMLC_PS_ROOT_URI); set DMLC_NODE_HOST or DMLC_INTERFACE to choose an address");
}

}  // namespace

Result<std::string> ResolveScheduler(const std::string& host) {
  return NumericHost(host, kSchedulersHost, "DMLC_PS_ROOT_URI");
}

bool IsOwnAddress(const std::string& host) {
  const auto found = Resolve(host, "an address", "numeric");
  if (!found) return false;
  const addrinfo& at = *found.value();
  sockaddr_storage address{};
  std::memcpy(&address, at.ai_addr, at.ai_addrlen);
  // Port 0 means any free port. Resolve has set kAnyPort, and the kernel refuses ports below 1024 to ordinary
  // users.
  if (at.ai_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&address)->sin6_port = 0;
  } else {
    reinterpret_cast<sockaddr_in*>(&address)->sin_port = 0;
  }
  const int fd = socket(at.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), at.ai_addrlen) == 0;
  close(fd);
  return bound;
}

Status ValidateAddress(const std::string& address) {
  const auto bad = [&](const std::string& why) {
    return Fail(ErrorCode::kInvalidArgument, "'", address, "' is no address: ", why,
                "; an address is tcp://host:port, tcp://[ipv6]:port or ipc://path");
  };
  if (address.starts_with(kIpc)) {
    const size_t length = address.size() - kIpc.size();
    if (length == 0) return bad("it has no path");
    if (length >= sizeof(sockaddr_un::sun_path)) {
      return bad(StrCat("its path has ", length, " bytes, more than the ", sizeof(sockaddr_un::sun_path) - 1,
                        " that a socket may have"));
    }
    return Status::Ok();
  }
  if (!address.starts_with(kTcp)) return bad("it begins with neither tcp:// nor ipc://");
  const size_t colon = address.rfind(':');
  const std::string host = address.substr(kTcp.size(), colon < kTcp.size() ? 0 : colon - kTcp.size());
  if (host.empty()) return bad("it has no host");
  const auto port = ParseInt(std::string_view(address).substr(colon + 1));
  if (!port || *port < 0 || *port > 65535) return bad("its port is not within 0 to 65535");
  const bool bracketed = host.front() == '[' && host.back() == ']';
  if (IsIpv6(host) && !bracketed) return bad("an IPv6 host needs brackets");
  return Status::Ok();
}

std::string TcpAddress(const std::string& host, uint16_t port) {
  return IsIpv6(host) && host.front() != '[' ? StrCat(kTcp, "[", host, "]:", port)
                                             : StrCat(kTcp, host, ":", port);
}

std::vector<InterfaceAddress> LocalAddresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(list, &freeifaddrs);
  std::vector<InterfaceAddress> addresses;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (auto numeric = Numeric(i->ifa_addr, size); numeric.ok()) {
      addresses.push_back({i->ifa_name, std::move(numeric).value()});
    }
  }
  return addresses;
}

std::string PeerHost(int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return "nobody";
  auto numeric = Numeric(reinterpret_cast<const sockaddr*>(&peer), size);
  return numeric ? std::move(numeric).value() : "nobody";
}

Result<HostChoice> ChooseOnInterface(const std::string& wanted, const std::vector<InterfaceAddress>& local,
                                     bool prefer_ipv6) {
  const auto is_named = [&](const InterfaceAddress& a) { return a.interface == wanted; };
  const bool exact = std::any_of(local.begin(), local.end(), is_named);
  const InterfaceAddress* best = nullptr;
  const auto rank = [&](const InterfaceAddress& a) {
    return (IsLinkLocal(a.address) ? 2 : 0) + (IsIpv6(a.address) != prefer_ipv6 ? 1 : 0);
  };
  for (const InterfaceAddress& a : local) {
    const bool matches = exact ? is_named(a) : a.interface.starts_with(wanted);
    if (matches && (best == nullptr || rank(a) < rank(*best))) best = &a;
  }
  if (best != nullptr) return Chosen(best->address, StrCat("DMLC_INTERFACE: ", best->interface));
  std::set<std::string> names;
  for (const InterfaceAddress& a : local) names.insert(a.interface);
  return Fail(ErrorCode::kInvalidArgument, "DMLC_INTERFACE is '", wanted,
              "', but no interface that is up and has an address is called or begins like that; there are: ",
              StrJoin(names));
}

Result<HostChoice> ChooseHost(const HostPreferences& preferences) {
  if (!preferences.node_host.empty()) {
    auto host = NumericHost(preferences.node_host, "this node's host", "DMLC_NODE_HOST");
    if (!host) return host.failure();
    return Chosen(std::move(host).value(), "DMLC_NODE_HOST");
  }
  if (!preferences.interface.empty()) {
    return ChooseOnInterface(preferences.interface, LocalAddresses(), IsIpv6(preferences.scheduler_host));
  }
  return ChooseByRoute(preferences.scheduler_host);
}

}  // namespace sluice::transport
