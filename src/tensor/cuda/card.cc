// The device of a card: a stream that computes, and two that copy to and from the host beside it. A copy
// waits for the network on the thread of its own stream, which holds nothing else up. Any thread may call the
// methods.
#include "base/pool_allocator.h"
#include "tensor/cuda/device.h"
#include "tensor/cuda/memory.h"
#include "tensor/cuda/stream.h"

namespace sluice::cuda {
namespace {

class Card final : public Device {
 public:
  explicit Card(int id)
      : memory_(std::make_shared<CardMemory>(id)),
        allocator_(memory_),
        records_(std::make_shared<PoolAllocator>()),
        compute_(id, "compute", KeepsWork::kUntilIssued, records_),
        to_host_(id, "to host", KeepsWork::kUntilDone, records_),
        from_host_(id, "from host", KeepsWork::kUntilDone, records_) {}

  Stream& stream() override { return compute_; }
  Kernels& kernels() override { return compute_.kernels(); }
  DeviceStream to_host() override { return {to_host_, to_host_.kernels()}; }
  DeviceStream from_host() override { return {from_host_, from_host_.kernels()}; }
  const std::shared_ptr<Allocator>& allocator() override { return allocator_; }
  const std::shared_ptr<Allocator>& records() override { return records_; }
  void Drain() override {
    std::exception_ptr error;
    for (CudaStream* const stream : {&from_host_, &compute_, &to_host_}) {
      try {
        stream->Drain(kNoLimit);
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
  const std::shared_ptr<CardMemory> memory_;
  const std::shared_ptr<Allocator> allocator_, records_;
  CudaStream compute_, to_host_, from_host_;
};

}  // namespace

std::shared_ptr<Device> MakeCard(int id) {
  return std::make_shared<Card>(id);
}

}  // namespace sluice::cuda
