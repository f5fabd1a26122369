// The memory of cpu_pinned(i) in builds without CUDA: the heap; the counterpart of cuda/pinned_memory.cc.
#include "tensor/pinned_memory.h"

namespace sluice {
namespace {

class Heap final : public PinnedMemory {
 public:
  void* Allocate(size_t size) override { return heap_->Allocate(size); }
  void Deallocate(void* data, size_t size) noexcept override { heap_->Deallocate(data, size); }
  void Begin(int) override {}
  void Add(MutableBytes) override {}
  void AddReadOnly(Bytes) override {}
  void WillRead(Bytes) override {}
  void Remove(Bytes) noexcept override {}

 private:
  const std::shared_ptr<Allocator> heap_ = HeapAllocator();
};

}  // namespace

std::shared_ptr<PinnedMemory> MakePinnedMemory() {
  return std::make_shared<Heap>();
}

}  // namespace sluice
