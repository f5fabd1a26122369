// The device of a card: a stream that computes, two that copy to and from the host beside it, and one for
// operations of several cards. A copy waits on the thread of its own stream, which holds nothing else up. Any
// thread may call the methods.
#include <optional>

#include "base/mutex.h"
#include "base/pool_allocator.h"
#include "tensor/cuda/device.h"
#include "tensor/cuda/memory.h"
#include "tensor/cuda/stream.h"

namespace sluice::cuda {
namespace {

class Card final : public Device {
 public:
  explicit Card(int id)
      : id_(id),
        memory_(std::make_shared<CardMemory>(id)),
        allocator_(memory_),
        records_(std::make_shared<PoolAllocator>()),
        compute_(id, "compute", KeepsWork::kUntilIssued, memory_, records_),
        to_host_(id, "to host", KeepsWork::kUntilDone, memory_, records_),
        from_host_(id, "from host", KeepsWork::kUntilDone, memory_, records_) {}

  Stream& stream() override { return compute_; }
  Kernels& kernels() override { return compute_.kernels(); }
  DeviceStream to_host() override { return {to_host_, to_host_.kernels()}; }
  DeviceStream from_host() override { return {from_host_, from_host_.kernels()}; }
  DeviceStream collective() override {
    const MutexLock lock(mutex_);
    if (!collective_) collective_.emplace(id_, "collective", KeepsWork::kUntilDone, memory_, records_);
    return {*collective_, collective_->kernels()};
  }
  const std::shared_ptr<Allocator>& allocator() override { return allocator_; }
  const std::shared_ptr<Allocator>& records() override { return records_; }
  void Drain() override {
    std::exception_ptr error;
    CudaStream* const collective = [this] {
      const MutexLock lock(mutex_);
      return collective_ ? &*collective_ : nullptr;
    }();
    for (CudaStream* const stream : {&from_host_, &compute_, collective, &to_host_}) {
      try {
        if (stream != nullptr) stream->Drain(kNoLimit);
      } catch (...) {
        error = std::current_exception();
      }
    }
    if (error != nullptr) std::rethrow_exception(error);
  }
  void LeaveUses(const void* memory, std::span<const Event> uses) override {
    memory_->LeaveUses(memory, uses);
  }
  Events TakeUses(const void* memory) override { return memory_->TakeUses(memory); }

 private:
  const int id_;
  const std::shared_ptr<CardMemory> memory_;
  const std::shared_ptr<Allocator> allocator_, records_;
  CudaStream compute_, to_host_, from_host_;
  Mutex mutex_;
  std::optional<CudaStream> collective_ SLUICE_GUARDED_BY(mutex_);  // is made at the first use
};

}  // namespace

std::shared_ptr<Device> MakeCard(int id) {
  return std::make_shared<Card>(id);
}

}  // namespace sluice::cuda
