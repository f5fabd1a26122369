// The device of a card: a stream that computes, two that copy to and from the host beside it, one for values
// that were delivered, and one for operations of several cards. A copy waits on the thread of its own stream,
// which holds nothing else up. Any thread may call the methods.
#include <optional>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/pool_allocator.h"
#include "base/strings.h"
#include "sluice/context.h"
#include "sluice/error.h"
#include "tensor/cuda/current_card.h"
#include "tensor/cuda/device.h"
#include "tensor/cuda/memory.h"
#include "tensor/cuda/stream.h"

namespace sluice::cuda {
namespace {

class Card final : public Device {
 public:
  Card(int id, bool multiplies_tfloat32)
      : id_(id),
        memory_(std::make_shared<CardMemory>(id)),
        allocator_(memory_),
        records_(std::make_shared<PoolAllocator>()),
        compute_(id, "compute", KeepsWork::kUntilIssued, memory_, records_),
        to_host_(id, "to host", KeepsWork::kUntilDone, memory_, records_),
        from_host_(id, "from host", KeepsWork::kUntilDone, memory_, records_) {
    if (multiplies_tfloat32) compute_.kernels().MultiplyFloat32As(Arithmetic::kTFloat32);
  }

  Stream& stream() override { return compute_; }
  Kernels& kernels() override { return compute_.kernels(); }
  DeviceStream to_host() override { return {to_host_, to_host_.kernels()}; }
  DeviceStream from_host() override { return {from_host_, from_host_.kernels()}; }
  DeviceStream delivered() override { return Made(&delivered_, "delivered", WaitsInWork::kNo); }
  DeviceStream collective() override { return Made(&collective_, "collective", WaitsInWork::kYes); }
  const std::shared_ptr<Allocator>& allocator() override { return allocator_; }
  const std::shared_ptr<Allocator>& records() override { return records_; }
  void Drain() override {
    std::exception_ptr error;
    std::vector<CudaStream*> streams = {&from_host_, &compute_, &to_host_};
    {
      const MutexLock lock(mutex_);
      if (delivered_) streams.insert(streams.begin(), &*delivered_);
      if (collective_) streams.push_back(&*collective_);
    }
    for (CudaStream* const stream : streams) {
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
  void EnablePeerAccess(int other) override {
    const CurrentCard card(id_, std::nothrow);  // a card that is lost says so to its next operation
    int can = 0;
    cudaError_t error = cudaDeviceCanAccessPeer(&can, id_, other);
    if (error == cudaSuccess && can != 0) error = cudaDeviceEnablePeerAccess(other, 0);
    if (error != cudaSuccess) static_cast<void>(cudaGetLastError());  // it would be the next call's
    if (error != cudaSuccess && error != cudaErrorPeerAccessAlreadyEnabled)
      LOG(WARNING) << WrapLogged(StrCat("copies from ", gpu(id_), " to ", gpu(other),
                                        " go through memory of the host: cudaDeviceEnablePeerAccess failed: ",
                                        cudaGetErrorString(error), " (", cudaGetErrorName(error), ")"));
  }

 private:
  // Makes the stream at its first use.
  DeviceStream Made(std::optional<CudaStream>* made, const char* name, WaitsInWork waits) {
    const MutexLock lock(mutex_);
    try {
      if (!*made) made->emplace(id_, name, KeepsWork::kUntilDone, memory_, records_, waits);
    } catch (const Error& error) {
      throw Error(error.code(),
                  StrCat("stream \"", name, "\" of ", gpu(id_), " cannot be made: ", error.what()));
    }
    return {**made, (*made)->kernels()};
  }

  const int id_;
  const std::shared_ptr<CardMemory> memory_;
  const std::shared_ptr<Allocator> allocator_, records_;
  CudaStream compute_, to_host_, from_host_;
  Mutex mutex_;
  // Made at the first use, and then never changed.
  std::optional<CudaStream> delivered_, collective_;
};

}  // namespace

std::shared_ptr<Device> MakeCard(int id, bool multiplies_tfloat32) {
  try {
    return std::make_shared<Card>(id, multiplies_tfloat32);
  } catch (const Error& error) {
    throw Error(error.code(), StrCat(gpu(id), " cannot be opened: ", error.what()));
  }
}

}  // namespace sluice::cuda
