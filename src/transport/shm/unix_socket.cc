// AF_UNIX sockets that pass records and descriptors: a SEQPACKET pair for each link, and a DGRAM socket with
// an abstract name as the rendezvous. Invariants: a record is sent whole or not at all; a received descriptor
// is owned at once, so one that is not wanted is closed; every call is non-blocking. MemoryLink and
// SharedMemory call these functions under the loop's lock; no state is kept.
#include "transport/shm/unix_socket.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <iterator>

namespace sluice::transport {
namespace {

// Room for kMaxDescriptors, aligned as the kernel writes them.
union Control {
  cmsghdr header;
  char room[CMSG_SPACE(kMaxDescriptors * sizeof(int))];
};

bool Send(int socket, const sockaddr_un* to, socklen_t to_size, Bytes record,
          std::span<const int> descriptors) {
  Control control{};
  iovec content{const_cast<std::byte*>(record.data()), record.size()};
  msghdr message{};
  message.msg_name = const_cast<sockaddr_un*>(to);
  message.msg_namelen = to_size;
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.room;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(record.size());
}

void TakeDescriptors(msghdr* message, Received* out) {
  size_t taken = 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(message); header != nullptr; header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      FileDescriptor received(fd);
      if (taken < kMaxDescriptors) out->descriptors[taken++] = std::move(received);
    }
  }
}

// The address of a socket that has a name in Linux's abstract namespace.
struct AbstractAddress {
  explicit AbstractAddress(const std::string& name) {
    address.sun_family = AF_UNIX;  // the name follows a zero byte: unix(7), abstract
    fits = name.size() < sizeof address.sun_path;
    if (!fits) return;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  sockaddr_un address{};
  socklen_t size = 0;
  bool fits = false;
};

Failure Unavailable(const std::string& what) {
  return Fail(ErrorCode::kUnavailable, what, ": ", std::strerror(errno));
}

}  // namespace

bool SendRecord(int socket, Bytes record, std::span<const int> descriptors) {
  return Send(socket, nullptr, 0, record, descriptors);
}

ReceiveResult ReceiveRecord(int socket, MutableBytes room, Received* out) {
  Control control{};
  iovec content{room.data(), room.size()};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control.room;
  message.msg_controllen = sizeof control.room;
  const ssize_t size = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0) return errno == EAGAIN || errno == EINTR ? ReceiveResult::kNothing : ReceiveResult::kClosed;
  TakeDescriptors(&message, out);
  if (size == 0) return ReceiveResult::kClosed;
  out->bytes = static_cast<size_t>(size);
  return ReceiveResult::kRecord;
}

Result<std::pair<FileDescriptor, FileDescriptor>> MakeSocketPair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return Unavailable("socketpair");
  return std::pair(FileDescriptor(ends[0]), FileDescriptor(ends[1]));
}

Result<FileDescriptor> ListenAt(const std::string& name) {
  FileDescriptor listener(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const AbstractAddress address(name);
  if (!listener.valid() || !address.fits ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&address.address), address.size) != 0)
    return Unavailable("a socket for shared memory");
  return listener;
}

bool DropWithoutSecret(int listener, size_t size, const std::array<char, 8>& secret) {
  const auto word = [&](size_t at) {
    uint32_t big_endian;
    std::memcpy(&big_endian, secret.data() + at, sizeof big_endian);
    return ntohl(big_endian);
  };
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), BPF_JUMP(BPF_JMP | BPF_JEQ, static_cast<uint32_t>(size), 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ, word(0), 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4), BPF_JUMP(BPF_JMP | BPF_JEQ, word(4), 0, 1),
      BPF_STMT(BPF_RET, UINT32_MAX),         BPF_STMT(BPF_RET, 0)};
  const sock_fprog program{std::size(code), code};
  return setsockopt(listener, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

Status SendTo(const std::string& name, Bytes record, std::span<const int> descriptors) {
  const FileDescriptor sender(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const AbstractAddress address(name);
  if (!address.fits) return Fail(ErrorCode::kInvalidArgument, "a name of ", name.size(), " bytes");
  if (!sender.valid()) return Unavailable("a socket for shared memory");
  if (Send(sender.get(), &address.address, address.size, record, descriptors)) return Status::Ok();
  if (errno == ECONNREFUSED)
    return Fail(ErrorCode::kUnavailable, "it runs on another host or in another network namespace");
  if (errno == EAGAIN) return Fail(ErrorCode::kResourceExhausted, "too many requests wait there");
  return Unavailable("its socket for shared memory");
}

std::optional<uid_t> UserOf(int socket) {
  ucred user{};
  socklen_t size = sizeof user;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &user, &size) != 0) return std::nullopt;
  return user.uid;
}

}  // namespace sluice::transport
