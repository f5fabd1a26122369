// Short records with descriptors over the sockets of one host (unix(7), SCM_RIGHTS). No function blocks.
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
  size_t bytes = 0;  // the record's, which is cut to the size of the receiver's buffer
  std::array<FileDescriptor, kMaxDescriptors> descriptors;
};
enum class ReceiveResult : uint8_t { kRecord, kNothing, kClosed };

// Returns false when the record cannot be sent, now or ever.
bool SendRecord(int socket, Bytes record, std::span<const int> descriptors = {});
ReceiveResult ReceiveRecord(int socket, MutableBytes room, Received* out);

// Makes two connected ends that keep records separate and in order.
Result<std::pair<FileDescriptor, FileDescriptor>> MakeSocketPair();
// Makes a socket that receives records under a name in Linux's abstract namespace; the name ends with it.
Result<FileDescriptor> ListenAt(const std::string& name);
// Makes the kernel drop records that do not have `size` bytes or do not begin with `secret`, and their
// descriptors, at the sender. So only a process with the secret can fill the queue, or send a descriptor
// whose closing blocks (a socket that lingers). Returns false when the kernel cannot filter.
bool DropWithoutSecret(int listener, size_t size, const std::array<char, 8>& secret);
// Sends one record to the socket that listens at `name`. Fails with kUnavailable when there is none in this
// host's network namespace, and with kResourceExhausted when net.unix.max_dgram_qlen records wait there.
Status SendTo(const std::string& name, Bytes record, std::span<const int> descriptors);
// Returns the user of the process that made the socket pair of `socket`.
std::optional<uid_t> UserOf(int socket);

}  // namespace sluice::transport
