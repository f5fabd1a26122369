// Memory of a card that a kernel needs while it runs.
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <functional>

namespace sluice::cuda {

// One block of memory of the current card, which grows when a call needs more. Work that uses it runs on one
// stream, so that the next call may use it again at once. Not thread-safe.
class Workspace {
 public:
  // `make_room` is called when the card has no memory left, and returns whether it has got some back; it may
  // be empty.
  Workspace(cudaStream_t stream, std::function<bool()> make_room)
      : stream_(stream), make_room_(std::move(make_room)) {}
  ~Workspace();  // waits for the stream
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // Returns at least `bytes` bytes, which begin at a multiple of 256, until the next call. Throws
  // Error(kResourceExhausted) when the card has no memory left.
  template <typename T>
  T* Take(size_t count) {
    return static_cast<T*>(TakeBytes(count * sizeof(T)));
  }

 private:
  void* TakeBytes(size_t bytes);
  cudaError_t Allocate(size_t bytes);
  void Free() noexcept;

  const cudaStream_t stream_;
  const std::function<bool()> make_room_;
  void* memory_ = nullptr;
  size_t size_ = 0;
};

}  // namespace sluice::cuda
