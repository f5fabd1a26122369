// TCP connections that belong to somebody else, who may close them at any moment. Internal to zmq/.
//
// A descriptor's number then names whatever this process opens next: another connection, a listening socket,
// a file. So a connection is known by its number and the kernel's cookie of its socket, which no other socket
// ever has (socket(7), SO_COOKIE: Linux 4.12).
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

// What `fd` is now, if that is a TCP connection which stands and whose end here is `port`.
std::optional<TcpConnection> FindTcpConnection(int fd, uint16_t port);
// Bytes that its owner has read of it; nullopt once it is closed here. Of whom they are is looked at last.
std::optional<uint64_t> BytesTaken(const TcpConnection& connection);
// Resets it and forgets what it has received, and tells the other end's host; nullopt, and nothing has
// happened, once it is closed here.
std::optional<std::string> Abort(const TcpConnection& connection);

// Gives up what a congestion control does on a network, where both ends of the connection `fd` have one
// address: there nothing is lost and no queue grows, and one that paces (BBR) takes a sixth of all processor
// time for nothing. Then it is Reno, which every Linux has and lets anybody choose. Else nothing happens, nor
// where `fd` is no TCP connection. One that took the number of a closed one meanwhile is treated the same. Of
// each end it is called for once: a worker's that connects anew keeps the system's.
void DoNotPaceWithinHost(int fd);
// Whether two ends are one host: the same address, or both loopback ones.
bool AreOneHost(const sockaddr_storage& a, const sockaddr_storage& b);

}  // namespace sluice::transport
