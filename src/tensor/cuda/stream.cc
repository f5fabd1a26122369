// CudaStream: Enqueue sorts an operation's dependencies, the issuing thread runs its work, and Completion
// ends its event. It owns the CUDA stream, its kernels, the issuing thread and the Completion. Invariants:
// operations are issued in the order of Enqueue; an operation waits only for operations that were enqueued
// before it, so no two streams wait for each other. Any thread may call Enqueue and Drain; the issuing
// threads of other streams call MakeWait. Card owns the streams.
#include "tensor/cuda/stream.h"

#include <algorithm>
#include <utility>

#include "base/pool_allocator.h"
#include "base/strings.h"
#include "sluice/context.h"
#include "tensor/cuda/current_card.h"
#include "tensor/devices.h"

namespace sluice::cuda {
namespace {

constexpr uint64_t kMostUnrecorded = 32;  // operations that compute, without a marker behind them

uint64_t NewId() {
  static std::atomic<uint64_t> made = 0;
  return ++made;
}

}  // namespace

struct CudaStream::Operation {
  // One wait for each stream does.
  void AddBefore(CudaStream* stream, uint64_t count) {
    for (Before& one : before) {
      if (one.stream != stream) continue;
      one.count = std::max(one.count, count);
      return;
    }
    before.push_back({stream, count});
  }

  Event done;
  Work work;
  InlineVector<Before, 4> before;
  Events awaited;      // by the issuing thread
  Events after;        // whose errors carry on
  bool began = false;  // the work has been called
};

CudaStream::Handles::Handles(int card) {
  const CurrentCard current(card);
  const MutexLock lock(allocation_mutex);
  try {
    Require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    Require(cudaEventCreateWithFlags(&passed, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    void* memory = nullptr;
    Require(cudaMalloc(&memory, sizeof(BadInput)), "cudaMalloc");
    found = static_cast<BadInput*>(memory);
    Require(cudaMemsetAsync(found, 0, sizeof(BadInput), stream), "cudaMemsetAsync");
  } catch (...) {
    Free();
    throw;
  }
}

// Errors are those of work before, which has reported them.
void CudaStream::Handles::Free() noexcept {
  if (found != nullptr) static_cast<void>(cudaFree(std::exchange(found, nullptr)));
  if (passed != nullptr) static_cast<void>(cudaEventDestroy(std::exchange(passed, nullptr)));
  if (stream != nullptr) static_cast<void>(cudaStreamDestroy(std::exchange(stream, nullptr)));
}

CudaStream::CudaStream(int card, const char* name, KeepsWork keeps, std::shared_ptr<CardMemory> memory,
                       std::shared_ptr<Allocator> records, WaitsInWork waits)
    : card_(card),
      keeps_(keeps),
      waits_(waits),
      memory_(std::move(memory)),
      records_(std::move(records)),
      handles_(card),
      kernels_(std::make_unique<CudaKernels>(handles_.stream, handles_.found, [this] { return MakeRoom(); })),
      id_(NewId()) {
  const std::string thread = StrCat(gpu(card), " ", name);
  completion_.emplace(card, StrCat(thread, " end"));
  issuing_.emplace(thread, [card] {
    Devices::OnDeviceThread();
    static_cast<void>(cudaSetDevice(card));  // where that fails, so does what follows
  });
}

CudaStream::~CudaStream() {
  issuing_.reset();
  const CurrentCard current(card_, std::nothrow);
  completion_.reset();
  kernels_.reset();
  const MutexLock lock(allocation_mutex);
  handles_.Free();
}

Event CudaStream::Enqueue(Label what, std::span<const Event> after, Work work) {
  auto operation = std::allocate_shared<Operation>(MemoryOf<Operation>(records_));
  operation->work = std::move(work);
  for (const Event& event : after) {
    if (event.Succeeded()) continue;
    if (event.Done() || event.stream() == this) {
      if (!event.quiet()) operation->after.push_back(event);
      continue;
    }
    // Streams are not const but for who looks at events.
    auto* const other = dynamic_cast<CudaStream*>(const_cast<Stream*>(event.stream()));
    if (other != nullptr) operation->AddBefore(other, event.place());
    if (other == nullptr) operation->awaited.push_back(event);
    if (!event.quiet()) operation->after.push_back(event);
  }
  const MutexLock lock(enqueue_mutex_);  // operations are issued in the order of their places
  Event done = Event::Make(std::move(what), *this, records_, enqueued_ + 1);
  operation->done = done;
  issuing_->Post([this, operation = std::move(operation)] { Issue(*operation); });
  ++enqueued_;
  return done;
}

void CudaStream::Issue(Operation& operation) {
  const uint64_t number = issued_.With([](uint64_t issued) { return issued + 1; });
  IssuedOperation issued;
  issued.done = operation.done;
  kernels_->Begin(number);
  try {
    if (completion_->TakeMustForget()) {
      // What depends on the operation that found it is issued behind this one, and has to know of the error.
      Record(number - 1);
      completion_->Await(number - 1);
      Require(cudaMemsetAsync(handles_.found, 0, sizeof(BadInput), handles_.stream), "cudaMemsetAsync");
      issued.forgets = true;
    }
    // What this waits for may depend on what was issued before.
    const bool waits = !operation.awaited.empty() || !operation.before.empty();
    if (waits || waits_ == WaitsInWork::kYes) Record(number - 1);
    RunWork(operation);
  } catch (...) {
    issued.error = OfOperation(operation.done.what(), std::current_exception());
    operation.done.Announce(issued.error);
    if (!operation.began) operation.work = nullptr;  // whoever waits for it to run hears of it at once
  }
  issued.checks_inputs = kernels_->checks_inputs();
  issued.late_error = kernels_->TakeLateError();
  checked_ = checked_ || issued.checks_inputs;
  if (keeps_ == KeepsWork::kUntilDone) issued.work = std::move(operation.work);
  operation.work = nullptr;
  issued.after = std::move(operation.after);
  completion_->Add(std::move(issued));
  issued_.Notify([&](uint64_t& count) { count = number; });
  // The network waits for single copies.
  const bool copies = keeps_ == KeepsWork::kUntilDone;
  if (copies || number >= enqueued_ || number - recorded_ >= kMostUnrecorded) Record(number);
}

void CudaStream::RunWork(Operation& operation) {
  for (const Event& event : operation.awaited) event.WaitQuietly();
  for (const Before& before : operation.before) WaitFor(before);
  for (const Event& event : operation.after) {
    if (const std::exception_ptr error = event.KnownError()) std::rethrow_exception(error);
  }
  operation.began = true;
  operation.work();
}

void CudaStream::Record(uint64_t number) {
  if (number == recorded_) return;
  completion_->Record(handles_.stream, checked_ ? handles_.found : nullptr);
  recorded_ = number;
  checked_ = false;
}

// What the blocks wait for may have been issued on this stream, and must be recorded to end.
bool CudaStream::MakeRoom() {
  Record(issued_.With([](uint64_t issued) { return issued; }));
  return memory_->ReleaseSlabs();
}

// What was issued there since then would be waited for as well.
void CudaStream::WaitFor(const Before& before) {
  uint64_t& awaited = awaited_[before.stream->id_];
  if (awaited < before.count) awaited = before.stream->MakeWait(handles_.stream, before.count);
}

uint64_t CudaStream::MakeWait(cudaStream_t waiter, uint64_t count) {
  const uint64_t awaited = issued_.Await(
      kNoLimit, [count](uint64_t issued) { return issued >= count; },
      [](uint64_t issued, bool) { return issued; });
  const MutexLock lock(passed_mutex_);
  cudaError_t error = cudaEventRecord(handles_.passed, handles_.stream);
  if (error == cudaSuccess) error = cudaStreamWaitEvent(waiter, handles_.passed, 0);
  if (error != cudaSuccess) Require(error, StrCat("waiting for the work of ", gpu(card_)));
  return awaited;
}

void CudaStream::Drain(Duration timeout) {
  Enqueue("everything before", {}, [] {}).Wait(timeout);
}

}  // namespace sluice::cuda
