// Memory that processes of a host share: a file without a name (memfd_create(2)), handed over by its
// descriptor and gone with the last process that has it, however that ends. Internal to shm/.
//
// It is sealed when it is made: it never shrinks, so that reading it cannot fault, and nobody but its maker
// can write to it, whoever has the descriptor (fcntl(2), F_SEAL_SHRINK and, since Linux 5.1,
// F_SEAL_FUTURE_WRITE).
#pragma once

#include <cstdint>
#include <memory>

#include "base/buffer.h"
#include "base/file_descriptor.h"
#include "base/result.h"

namespace sluice::transport {

// One that this process made, and alone writes to.
class ShmSegment {
 public:
  // Zeros; takes memory page by page when it is first touched. Failure: kResourceExhausted.
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

// Another process's, to be read.
class ShmMapping {
 public:
  // Failures: kInvalidArgument for what is no sealed memory or longer than `max_bytes`, kResourceExhausted.
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
