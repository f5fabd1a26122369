// Memory that processes of one host share: a file without a name (memfd_create(2)), passed on by its
// descriptor and freed with the last process that has it, however that process ends. Internal to shm/.
//
// A segment is sealed when it is made: it never shrinks, so reading it cannot fault, and only its maker can
// write to it, even if another process has the descriptor (fcntl(2), F_SEAL_SHRINK and, since Linux 5.1,
// F_SEAL_FUTURE_WRITE).
#pragma once

#include <cstdint>
#include <memory>

#include "base/buffer.h"
#include "base/file_descriptor.h"
#include "base/result.h"

namespace sluice::transport {

// A segment that this process made, and that no other process writes to.
class ShmSegment {
 public:
  // Makes a segment of zeros, which takes memory page by page when it is first touched. Fails with
  // kResourceExhausted.
  static Result<std::shared_ptr<ShmSegment>> Make(size_t bytes);
  ~ShmSegment();
  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  int fd() const { return fd_.get(); }

 private:
  ShmSegment(FileDescriptor fd, std::byte* data, size_t size)
      : fd_(std::move(fd)), data_(data), size_(size) {}
  const FileDescriptor fd_;
  std::byte* const data_;
  const size_t size_;
};

// A segment of another process, mapped for reading.
class ShmMapping {
 public:
  // Fails with kInvalidArgument when `fd` is no sealed memory or longer than `max_bytes`, and with
  // kResourceExhausted when it cannot be mapped.
  static Result<std::shared_ptr<const ShmMapping>> Of(const FileDescriptor& fd, uint64_t max_bytes);
  ~ShmMapping();
  ShmMapping(const ShmMapping&) = delete;
  ShmMapping& operator=(const ShmMapping&) = delete;

  Bytes bytes() const { return bytes_; }

 private:
  explicit ShmMapping(Bytes bytes) : bytes_(bytes) {}
  const Bytes bytes_;
};

}  // namespace sluice::transport
