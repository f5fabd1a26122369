// Short records with descriptors over sockets of one host (unix(7), SCM_RIGHTS). Nothing here blocks.
// Internal to shm/.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/buffer.h"
#include "base/file_descriptor.h"
#include "base/result.h"

namespace sluice::transport {

inline constexpr size_t kMaxDescriptors = 2;

struct Received {
  size_t bytes = 0;  // of the record, cut to what there was room for
  std::array<FileDescriptor, kMaxDescriptors> descriptors;
};
enum class Arrival : uint8_t { kRecord, kNothing, kClosed };

// False: it cannot be sent, now or ever.
bool SendRecord(int socket, Bytes record, std::span<const int> descriptors = {});
Arrival ReceiveRecord(int socket, MutableBytes room, Received* out);

// Two ends that keep records apart and in order.
Result<std::pair<FileDescriptor, FileDescriptor>> MakeSocketPair();
// A socket that takes records by a name in Linux's abstract namespace, which is gone with it.
Result<FileDescriptor> ListenAt(const std::string& name);
// Whoever's records do not have `size` bytes, the first of them `secret`, sends nothing: the kernel drops
// them and their descriptors at the sender. To fill the queue, or to send a descriptor whose closing waits (a
// socket that lingers), takes the secret. False: this kernel filters nothing.
bool DropWithoutSecret(int listener, size_t size, const std::array<char, 8>& secret);
// One record to whoever listens there. Failure: kUnavailable, where nobody of this host, or of this network
// namespace, does; kResourceExhausted: more wait there than net.unix.max_dgram_qlen allows.
Status SendTo(const std::string& name, Bytes record, std::span<const int> descriptors);
// The user of whoever made the other end of a pair.
std::optional<uid_t> UserOf(int socket);

}  // namespace sluice::transport
