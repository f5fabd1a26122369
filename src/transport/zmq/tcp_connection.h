// Operations on TCP connections that belong to ZeroMQ, which may close them at any moment. Internal to zmq/.
//
// A closed descriptor's number names whatever this process opens next: another connection, a listening
// socket, a file. So a connection is identified by its number and the kernel's cookie of its socket, which no
// other socket ever has (socket(7), SO_COOKIE: Linux 4.12).
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

namespace sluice::transport {

struct TcpConnection {
  int fd = -1;
  uint64_t cookie = 0;
};

// Returns what `fd` names now; nullopt unless it is an established TCP connection with the local port `port`.
std::optional<TcpConnection> FindTcpConnection(int fd, uint16_t port);
// Returns the bytes that ZeroMQ has read from the connection; nullopt once it is closed on this side. The
// cookie is compared after the count is taken, so the count is this connection's.
std::optional<uint64_t> BytesTaken(const TcpConnection& connection);
// Resets the connection, drops what it has received, and returns the other end's host. Returns nullopt and
// does nothing once it is closed on this side.
std::optional<std::string> Abort(const TcpConnection& connection);

// Sets the congestion control of the TCP connection `fd` to Reno when both its ends are on one host: there
// nothing is lost and no queue grows, and a congestion control that paces (BBR) takes a sixth of all
// processor time for nothing. Every Linux has Reno and lets every process choose it. Does nothing for any
// other descriptor; when the number has been reused meanwhile, it treats the new connection the same. It is
// called once for each end: a worker's end that reconnects keeps the system's default.
void DoNotPaceWithinHost(int fd);
// Returns whether two ends are on one host: they have the same address, or both have loopback addresses.
bool AreOneHost(const sockaddr_storage& a, const sockaddr_storage& b);

}  // namespace sluice::transport
