// The memory of cpu_pinned(i) in builds with CUDA. Blocks are cut from slabs of cudaHostAlloc, since to pin
// memory takes a millisecond for each mebibyte, and ranges that others own are registered. Invariant: before
// Begin, CUDA is not called, so that a process that uses no GPU opens none. Arrays on cpu_pinned(i) call it,
// and whoever owns a range, on any thread.
#include "tensor/pinned_memory.h"

#include <cuda_runtime_api.h>

#include <map>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/mutex.h"
#include "base/strings.h"
#include "tensor/cuda/allocation_mutex.h"
#include "tensor/cuda/current_card.h"
#include "tensor/cuda/slabs.h"
#include "tensor/devices.h"

namespace sluice {
namespace cuda {
namespace {

constexpr size_t kSlab = size_t{16} << 20;
constexpr size_t kMostUnused = size_t{1} << 30;     // bytes of slabs that are kept for blocks to come
constexpr size_t kMostReadOnly = size_t{64} << 30;  // bytes of others' ranges that are pinned

class CudaPinnedMemory final : public PinnedMemory {
 public:
  ~CudaPinnedMemory() override {
    const MutexLock lock(mutex_);
    if (!card_ || Devices::IsEnding()) return;
    Free(slabs_.RemoveAll());
    for (const auto& [begin, range] : ranges_) Unregister(range);
  }

  void* Allocate(size_t size) override {
    {
      const MutexLock lock(mutex_);
      if (void* const memory = card_ ? slabs_.Take(size) : nullptr; memory != nullptr) return memory;
    }
    return heap_->Allocate(size);
  }

  void Deallocate(void* data, size_t size) noexcept override {
    {
      const MutexLock lock(mutex_);
      if (slabs_.GiveBack(data)) {
        if (!Devices::IsEnding() && slabs_.held() - slabs_.in_use().now > kMostUnused)
          Free(slabs_.RemoveUnused());
        return;
      }
    }
    heap_->Deallocate(data, size);
  }

  void Begin(int id) override {
    const MutexLock lock(mutex_);
    if (card_) return;
    card_ = id;
    for (auto& [begin, range] : ranges_)
      if (!range.read_only) Register(&range);
  }

  void Add(MutableBytes bytes) override {
    const MutexLock lock(mutex_);
    Range& range = ranges_[bytes.data()] = {.bytes = bytes, .read_only = false};
    if (card_) Register(&range);
  }

  void AddReadOnly(Bytes bytes) override {
    const MutexLock lock(mutex_);
    ranges_[bytes.data()] = {.bytes = bytes, .read_only = true};
  }

  void WillRead(Bytes part) override {
    const MutexLock lock(mutex_);
    auto found = ranges_.upper_bound(part.data());
    if (!card_ || found == ranges_.begin()) return;
    Range& range = (--found)->second;
    if (!range.read_only || range.read || part.data() >= range.bytes.data() + range.bytes.size()) return;
    range.read = true;
    if (read_only_ + range.bytes.size() <= kMostReadOnly) Register(&range);
  }

  void Remove(Bytes bytes) noexcept override {
    const MutexLock lock(mutex_);
    const auto found = ranges_.find(bytes.data());
    if (found == ranges_.end()) return;
    Unregister(found->second);
    ranges_.erase(found);
  }

 private:
  struct Range {
    void* begin() const { return const_cast<std::byte*>(bytes.data()); }  // what CUDA's functions take

    Bytes bytes;
    bool read_only;
    bool read = false;  // WillRead has been called for it
    bool registered = false;
  };

  void* MakeSlab(size_t bytes) SLUICE_REQUIRES(mutex_) {
    const CurrentCard current(*card_, std::nothrow);
    void* memory = nullptr;
    const MutexLock lock(allocation_mutex);
    const cudaError_t error = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
    if (error == cudaSuccess) return memory;
    Report(error, bytes);
    return nullptr;
  }

  void Free(std::span<const MutableBytes> slabs) noexcept SLUICE_REQUIRES(mutex_) {
    if (slabs.empty()) return;
    const CurrentCard current(*card_, std::nothrow);
    const MutexLock lock(allocation_mutex);
    for (const MutableBytes slab : slabs) static_cast<void>(cudaFreeHost(slab.data()));
  }

  void Register(Range* range) SLUICE_REQUIRES(mutex_) {
    const CurrentCard current(*card_, std::nothrow);
    const MutexLock lock(allocation_mutex);
    const unsigned flags = cudaHostRegisterPortable | (range->read_only ? cudaHostRegisterReadOnly : 0);
    const cudaError_t error = cudaHostRegister(range->begin(), range->bytes.size(), flags);
    range->registered = error == cudaSuccess;
    if (range->registered && range->read_only) read_only_ += range->bytes.size();
    if (error != cudaSuccess) Report(error, range->bytes.size());
  }

  void Unregister(const Range& range) noexcept SLUICE_REQUIRES(mutex_) {
    if (!range.registered || Devices::IsEnding()) return;
    if (range.read_only) read_only_ -= range.bytes.size();
    const CurrentCard current(*card_, std::nothrow);
    const MutexLock lock(allocation_mutex);
    static_cast<void>(cudaHostUnregister(range.begin()));
  }

  // Copies to and from memory that is not pinned are slower and right.
  void Report(cudaError_t error, size_t bytes) SLUICE_REQUIRES(mutex_) {
    static_cast<void>(cudaGetLastError());  // CUDA would report it again
    if (std::exchange(reported_, true)) return;
    LOG(WARNING) << WrapLogged(StrCat("CUDA pins no ", bytes,
                                      " bytes of host memory: ", cudaGetErrorString(error), " (",
                                      cudaGetErrorName(error), "); copies to and from GPUs are slower"));
  }

  const std::shared_ptr<Allocator> heap_ = HeapAllocator();
  Mutex mutex_;
  std::optional<int> card_ SLUICE_GUARDED_BY(mutex_);  // for whose context CUDA is called
  Slabs slabs_ SLUICE_GUARDED_BY(mutex_){
      kSlab, [this](size_t bytes) SLUICE_REQUIRES(mutex_) { return MakeSlab(bytes); }};
  std::map<const void*, Range> ranges_ SLUICE_GUARDED_BY(mutex_);  // by their beginnings
  size_t read_only_ SLUICE_GUARDED_BY(mutex_) = 0;                 // bytes of ranges that are registered so
  bool reported_ SLUICE_GUARDED_BY(mutex_) = false;                // a lack has been logged
};

}  // namespace
}  // namespace cuda

std::shared_ptr<PinnedMemory> MakePinnedMemory() {
  return std::make_shared<cuda::CudaPinnedMemory>();
}

}  // namespace sluice
