// System calls on connections whose descriptors ZeroMQ owns. Invariant: an operation that changes something
// works on a duplicate of the descriptor, which keeps the socket even if ZeroMQ closes its own meanwhile, and
// Abort first compares the cookie of that duplicate. No state is kept, so all functions are thread-safe.
// ConnectionMonitor and ZmqDriver call them under the driver's lock.
#include "transport/zmq/tcp_connection.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "base/file_descriptor.h"
#include "transport/address.h"

namespace sluice::transport {
namespace {

template <typename T>
bool Get(int fd, int option, T* value) {
  socklen_t size = sizeof *value;
  return getsockopt(fd, SOL_SOCKET, option, value, &size) == 0 && size == sizeof *value;
}

// Returns 0 when `fd` is no socket.
uint64_t CookieOf(int fd) {
  uint64_t cookie = 0;
  return Get(fd, SO_COOKIE, &cookie) ? cookie : 0;
}

bool IsEstablishedTcp(int fd) {
  int protocol = 0, listens = 1;
  sockaddr_storage peer;
  socklen_t size = sizeof peer;
  return Get(fd, SO_PROTOCOL, &protocol) && protocol == IPPROTO_TCP && Get(fd, SO_ACCEPTCONN, &listens) &&
         listens == 0 && getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
}

// Returns 0 when there is none.
uint16_t LocalPort(int fd) {
  sockaddr_storage local{};
  socklen_t size = sizeof local;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size) != 0) return 0;
  if (local.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(local).sin_port);
  if (local.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(local).sin6_port);
  return 0;
}

// IPv4 addresses are returned in their IPv6 form, ::ffff:a.b.c.d.
in6_addr AddressOf(const sockaddr_storage& end) {
  in6_addr address{};
  if (end.ss_family == AF_INET6) return reinterpret_cast<const sockaddr_in6&>(end).sin6_addr;
  if (end.ss_family == AF_INET) {
    address.s6_addr[10] = address.s6_addr[11] = 0xff;
    std::memcpy(&address.s6_addr[12], &reinterpret_cast<const sockaddr_in&>(end).sin_addr, 4);
  }
  return address;
}

bool IsLoopback(const in6_addr& address) {
  return IN6_IS_ADDR_LOOPBACK(&address) || (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127);
}

// Returns a second descriptor of what `fd` names now: it keeps that socket, whatever happens to the number.
FileDescriptor Duplicate(int fd) {
  return FileDescriptor(fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

}  // namespace

std::optional<TcpConnection> FindTcpConnection(int fd, uint16_t port) {
  const FileDescriptor held = Duplicate(fd);
  if (!IsEstablishedTcp(held.get()) || LocalPort(held.get()) != port) return std::nullopt;
  const uint64_t cookie = CookieOf(held.get());
  return cookie == 0 ? std::nullopt : std::optional(TcpConnection{fd, cookie});
}

std::optional<uint64_t> BytesTaken(const TcpConnection& connection) {
  tcp_info info{};
  socklen_t size = sizeof info;
  int waiting = 0;
  const bool told = getsockopt(connection.fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
                    ioctl(connection.fd, SIOCINQ, &waiting) == 0;
  if (CookieOf(connection.fd) != connection.cookie) return std::nullopt;
  const auto unread = static_cast<uint64_t>(waiting);
  return told && info.tcpi_bytes_received > unread ? info.tcpi_bytes_received - unread : 0;
}

// Resets by connect(2) with AF_UNSPEC. After shutdown(2) ZeroMQ would still read all that has arrived.
std::optional<std::string> Abort(const TcpConnection& connection) {
  const FileDescriptor held = Duplicate(connection.fd);
  if (CookieOf(held.get()) != connection.cookie) return std::nullopt;
  std::string host = PeerHost(held.get());
  const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
  if (connect(held.get(), &nobody, sizeof nobody) != 0) return std::nullopt;
  return host;
}

bool AreOneHost(const sockaddr_storage& a, const sockaddr_storage& b) {
  const in6_addr of_a = AddressOf(a), of_b = AddressOf(b);
  return IN6_ARE_ADDR_EQUAL(&of_a, &of_b) || (IsLoopback(of_a) && IsLoopback(of_b));
}

void DoNotPaceWithinHost(int fd) {
  const FileDescriptor held = Duplicate(fd);
  sockaddr_storage local{}, peer{};
  socklen_t local_size = sizeof local, peer_size = sizeof peer;
  if (!IsEstablishedTcp(held.get()) ||
      getsockname(held.get(), reinterpret_cast<sockaddr*>(&local), &local_size) != 0 ||
      getpeername(held.get(), reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0 ||
      !AreOneHost(local, peer))
    return;
  constexpr char kReno[] = "reno";
  setsockopt(held.get(), IPPROTO_TCP, TCP_CONGESTION, kReno, sizeof kReno - 1);
}

}  // namespace sluice::transport
