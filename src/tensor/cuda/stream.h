// Streams of a card.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>

#include "base/executor.h"
#include "base/guarded.h"
#include "base/mutex.h"
#include "tensor/cuda/allocation_mutex.h"
#include "tensor/cuda/completion.h"
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/memory.h"
#include "tensor/stream.h"

namespace sluice::cuda {

// How long an operation's work, and with it its arrays, is kept. Memory of the card that an operation has
// given back may be used again by what is issued behind it; memory of the host may not before the card has
// done the work.
enum class KeepsWork { kUntilIssued, kUntilDone };
// Whether an operation's work waits for other streams. What was issued before it completes meanwhile.
enum class WaitsInWork { kNo, kYes };

// The operations of a stream run on one thread, the issuing thread, as those of cpu(i) do; but their work
// only enqueues kernels and copies on a CUDA stream. Operations of several streams of cards are ordered on
// the cards; operations of other streams, and of the network, are waited for on the issuing thread.
class CudaStream final : public Stream {
 public:
  // Throws Error(kUnavailable) or Error(kResourceExhausted) if the card gives no stream.
  // Its kernels take memory that `memory` keeps for arrays to come when they find no other.
  CudaStream(int card, const char* name, KeepsWork keeps, std::shared_ptr<CardMemory> memory,
             std::shared_ptr<Allocator> records, WaitsInWork waits = WaitsInWork::kNo);
  ~CudaStream() override;

  Event Enqueue(Label what, std::span<const Event> after, Work work) override;
  void Drain(Duration timeout) override;
  // To be called by work on this stream.
  CudaKernels& kernels() { return *kernels_; }

 private:
  struct Operation;
  // The stream and the memory in which its kernels leave what they find.
  class Handles {
   public:
    explicit Handles(int card);
    ~Handles() {
      const MutexLock lock(allocation_mutex);
      Free();
    }
    void Free() noexcept SLUICE_REQUIRES(allocation_mutex);
    Handles(const Handles&) = delete;
    Handles& operator=(const Handles&) = delete;

    cudaStream_t stream = nullptr;
    cudaEvent_t passed = nullptr;  // is recorded for other streams that wait
    BadInput* found = nullptr;
  };
  // Work of another stream that has to be done first: the first `count` operations of it.
  struct Before {
    CudaStream* stream;
    uint64_t count;
  };

  void Issue(Operation& operation);
  // Waits for what the operation depends on and runs its work.
  void RunWork(Operation& operation);
  // Records that the operations issued so far, `number`, are to be completed.
  void Record(uint64_t number);
  // Gives memory back that is kept for arrays to come. Returns whether there was some.
  bool MakeRoom();
  // Makes this stream wait for operations of another one, unless it does already.
  void WaitFor(const Before& before);
  // Makes `waiter`, a stream of any card, wait for the first `count` operations of this one, or more. Returns
  // how many.
  uint64_t MakeWait(cudaStream_t waiter, uint64_t count);

  const int card_;
  const KeepsWork keeps_;
  const WaitsInWork waits_;
  const std::shared_ptr<CardMemory> memory_;
  const std::shared_ptr<Allocator> records_;
  Handles handles_;
  std::unique_ptr<CudaKernels> kernels_;
  Guarded<uint64_t> issued_{0};
  Mutex passed_mutex_;   // MakeWait holds it while it records handles_.passed and makes a stream wait for it
  Mutex enqueue_mutex_;  // Enqueue holds it while it counts and posts an operation
  std::atomic<uint64_t> enqueued_ = 0;
  const uint64_t id_;  // no other stream of the process has had it
  // The issuing thread's own:
  std::map<uint64_t, uint64_t> awaited_;  // how many operations of another stream, by id, this one waits for
  uint64_t recorded_ = 0;                 // how many operations the last marker has before it
  bool checked_ = false;                  // an operation since then has checked its inputs
  std::optional<Completion> completion_;
  std::optional<ThreadExecutor> issuing_;  // is destroyed first: it runs what is enqueued
};

}  // namespace sluice::cuda
