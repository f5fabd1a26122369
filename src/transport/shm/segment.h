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
#include "base/result.h"
#include "transport/shm/descriptor.h"

namespace sluice::transport {

// One that this process made, and alone writes to.
class Segment {
 public:
  // Zeros; takes memory page by page when it is first touched. Failure: kResourceExhausted.
  static Result<std::shared_ptr<Segment>> Make(size_t bytes);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  int fd() const { return fd_.get(); }

 private:
  Segment(Descriptor fd, std::byte* data, size_t size) : fd_(std::move(fd)), data_(data), size_(size) {}
  const Descriptor fd_;
  std::byte* const data_;
  const size_t size_;
};

// Another process's, to be read.
class Mapping {
 public:
  // Failures: kInvalidArgument for what is no sealed memory or longer than `max_bytes`, kResourceExhausted.
  static Result<std::shared_ptr<const Mapping>> Of(const Descriptor& fd, uint64_t max_bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  Bytes bytes() const { return bytes_; }

 private:
  explicit Mapping(Bytes bytes) : bytes_(bytes) {}
  const Bytes bytes_;
};

}  // namespace sluice::transport
