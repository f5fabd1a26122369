// Distinguishes the process that made a guard from the children that fork(2) made of it. Internal to shm/.
#pragma once

#include <sys/mman.h>

#include <new>

namespace sluice::transport {

// Thread-safe.
class ForkGuard {
 public:
  ForkGuard() : page_(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (page_ == MAP_FAILED) throw std::bad_alloc();
    *static_cast<char*>(page_) = 1;
    madvise(page_, kPage, MADV_WIPEONFORK);  // Linux 4.14
  }
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  ~ForkGuard() { munmap(page_, kPage); }

  bool IsOriginalProcess() const { return *static_cast<const char*>(page_) == 1; }

 private:
  static constexpr size_t kPage = 4096;
  void* const page_;
};

}  // namespace sluice::transport
