#include "transport/shm/segment.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>

namespace sluice::transport {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

Failure NoMemory(const char* what, size_t bytes) {
  return Fail(ErrorCode::kResourceExhausted, "shared memory of ", HumanBytes(bytes), ": ", what, ": ",
              std::strerror(errno));
}

// Whether the file lies in memfd_create's usual file system. A file of MFD_HUGETLB lies in another one, and
// reading it may fault for want of pages.
bool IsOfMemory(int fd) {
  struct statfs file_system;
  return fstatfs(fd, &file_system) == 0 && file_system.f_type == TMPFS_MAGIC;
}

// The kernel ends a process that grows a file beyond this limit (setrlimit(2), SIGXFSZ).
bool FitsLimit(size_t bytes) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes <= limit.rlim_cur;
}

}  // namespace

Result<std::shared_ptr<ShmSegment>> ShmSegment::Make(size_t bytes) {
  if (!FitsLimit(bytes)) {
    return Fail(ErrorCode::kResourceExhausted, "shared memory of ", HumanBytes(bytes),
                " is beyond this process's limit of file sizes (ulimit -f)");
  }
  FileDescriptor fd(memfd_create("sluice", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return NoMemory("memfd_create", bytes);
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return NoMemory("ftruncate", bytes);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return NoMemory("mmap", bytes);
  std::shared_ptr<ShmSegment> segment(new ShmSegment(std::move(fd), static_cast<std::byte*>(data), bytes));
  if (fcntl(segment->fd(), F_ADD_SEALS, kSeals) != 0) return NoMemory("F_ADD_SEALS", bytes);
  return segment;
}

ShmSegment::~ShmSegment() {
  munmap(data_, size_);
}

Result<std::shared_ptr<const ShmMapping>> ShmMapping::Of(const FileDescriptor& fd, uint64_t max_bytes) {
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || !IsOfMemory(fd.get()))
    return Fail(ErrorCode::kInvalidArgument, "a descriptor that is no memory sealed against shrinking");
  struct stat file;
  if (fstat(fd.get(), &file) != 0 || file.st_size <= 0 || static_cast<uint64_t>(file.st_size) > max_bytes)
    return Fail(ErrorCode::kInvalidArgument, "shared memory of ", file.st_size, " bytes; 1 to ", max_bytes,
                " are accepted");
  const auto size = static_cast<size_t>(file.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return NoMemory("mmap", size);
  return std::shared_ptr<const ShmMapping>(new ShmMapping({static_cast<const std::byte*>(data), size}));
}

ShmMapping::~ShmMapping() {
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace sluice::transport
