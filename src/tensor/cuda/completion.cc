// Completion: markers are CUDA events that the issuing thread records behind operations; a thread waits for
// them, oldest first, and completes the operations before each. It owns that thread, the markers, and the
// operations that have not ended. CudaStream calls the methods on its issuing thread.
//
// Invariants: operations complete in the order in which they were added, after the events whose errors they
// carry on. Kernels that find a bad input leave it in the card's memory, where only the first one of several
// stays until it is forgotten. So every operation that checks inputs between the one that found it and the
// one that forgets it gets the same error: it may have found something too, and what it writes to lasting
// state has not been written.
#include "tensor/cuda/completion.h"

#include <utility>

#include "base/executor.h"
#include "base/strings.h"
#include "sluice/context.h"
#include "sluice/error.h"
#include "tensor/cuda/allocation_mutex.h"
#include "tensor/devices.h"

namespace sluice::cuda {
namespace {

cudaError_t AllocateFound(BadInput** found) {
  void* memory = nullptr;
  const MutexLock lock(allocation_mutex);
  const cudaError_t error = cudaHostAlloc(&memory, sizeof(BadInput), cudaHostAllocDefault);
  *found = static_cast<BadInput*>(memory);
  return error;
}

}  // namespace

Completion::Completion(int card, std::string name)
    : card_(card), thread_([this, name = std::move(name)] {
        SetThreadName(name);
        Devices::OnDeviceThread();
        Run();
      }) {}

Completion::~Completion() {
  state_.Notify([](State& state) { state.stops = true; });
  thread_.join();
  state_.With([](State& state) {
    for (const Marker& marker : state.spare) {
      if (marker.reached != nullptr) static_cast<void>(cudaEventDestroy(marker.reached));
      if (marker.pinned == nullptr) continue;
      const MutexLock lock(allocation_mutex);
      static_cast<void>(cudaFreeHost(marker.pinned));
    }
  });
}

void Completion::Add(IssuedOperation operation) {
  state_.With([&](State& state) {
    state.operations.push_back(std::move(operation));
    ++state.added;
  });
}

// A marker that was not recorded, since the card has failed, is passed on with the error. Without memory for
// a marker the stream is waited for here.
void Completion::Record(cudaStream_t stream, const BadInput* found) {
  Marker marker = SpareMarker();
  marker.stream = stream;
  marker.is_reached = !MakeParts(&marker, found != nullptr);
  const auto do_next = [&](auto call) {
    if (marker.error == cudaSuccess) marker.error = call();
  };
  if (found != nullptr) {
    BadInput* const to = marker.is_reached ? &marker.found_before : marker.pinned;
    do_next([&] { return cudaMemcpyAsync(to, found, sizeof(BadInput), cudaMemcpyDefault, stream); });
  }
  do_next([&] {
    return marker.is_reached ? cudaStreamSynchronize(stream) : cudaEventRecord(marker.reached, stream);
  });
  marker.looks = found != nullptr && marker.error == cudaSuccess;
  state_.Notify([&](State& state) {
    marker.operations = state.added;
    state.markers.push_back(marker);
  });
}

bool Completion::MakeParts(Marker* marker, bool looks) {
  cudaError_t error = cudaSuccess;
  if (marker->reached == nullptr)
    error = cudaEventCreateWithFlags(&marker->reached, cudaEventDisableTiming | cudaEventBlockingSync);
  if (error == cudaSuccess && looks && marker->pinned == nullptr) error = AllocateFound(&marker->pinned);
  if (error != cudaSuccess) static_cast<void>(cudaGetLastError());  // CUDA would report it again
  return error == cudaSuccess;
}

Completion::Marker Completion::SpareMarker() {
  return state_.With([](State& state) {
    if (state.spare.empty()) return Marker{};
    Marker marker = state.spare.back();
    state.spare.pop_back();
    return Marker{.reached = marker.reached, .pinned = marker.pinned};
  });
}

bool Completion::TakeMustForget() {
  return state_.With([](State& state) { return std::exchange(state.must_forget, false); });
}

void Completion::Run() {
  try {
    Require(cudaSetDevice(card_),
            StrCat("the thread that waits for ", gpu(card_), " cannot choose it: cudaSetDevice"));
  } catch (...) {
    lost_ = std::current_exception();
  }
  while (const std::optional<Marker> marker = NextMarker()) {
    AwaitMarker(*marker);
    NoteFound(*marker);
    CompleteUpTo(marker->operations);
    state_.With([&](State& state) { state.spare.push_back(*marker); });
  }
}

std::optional<Completion::Marker> Completion::NextMarker() {
  const auto ready = [](const State& state) { return !state.markers.empty() || state.stops; };
  return state_.Await(kNoLimit, ready, [](State& state, bool) -> std::optional<Marker> {
    if (state.markers.empty()) return std::nullopt;
    const Marker marker = state.markers.front();
    state.markers.pop_front();
    return marker;
  });
}

// Most work ends within microseconds of being recorded, and a thread that sleeps is woken 13 us later than
// one that looks (docs/design/gpu.md).
void Completion::AwaitMarker(const Marker& marker) {
  constexpr Duration kLooks = 20us;
  cudaError_t error = marker.error;
  if (error == cudaSuccess && !marker.is_reached) {
    const SteadyClock clock;
    const Time end = clock.Now() + kLooks;
    do {
      error = cudaEventQuery(marker.reached);
    } while (error == cudaErrorNotReady && clock.Now() < end);
  }
  if (error == cudaErrorNotReady) error = cudaEventSynchronize(marker.reached);
  if (error == cudaSuccess) return;
  // The operations are about to end, and with them memory of the host that the stream may still copy to.
  static_cast<void>(cudaStreamSynchronize(marker.stream));
  if (lost_ != nullptr) return;
  const std::string which = state_.With([](const State& state) {
    return state.operations.empty() ? std::string("no operation")
                                    : StrCat("operation ", state.operations.front().done.what(),
                                             " or one of those queued behind it");
  });
  lost_ = std::make_exception_ptr(
      Error(ErrorCode::kUnavailable,
            StrCat(gpu(card_), " stopped in ", which, ": ", cudaGetErrorString(error), " (",
                   cudaGetErrorName(error), "); this process cannot use the card any more, start it again")));
}

void Completion::NoteFound(const Marker& marker) {
  if (lost_ != nullptr || !marker.looks) return;
  const BadInput& found = marker.is_reached ? marker.found_before : *marker.pinned;
  if (found.found == 0) return;
  if (failure_ && failure_->operation == found.operation) return;
  next_ = Found{found.operation, std::make_exception_ptr(cuda::ErrorOf(found))};
  state_.With([](State& state) { state.must_forget = true; });
}

void Completion::CompleteUpTo(uint64_t count) {
  uint64_t number = state_.With([](const State& state) { return state.completed; });
  while (number < count) {
    IssuedOperation operation = state_.With([](State& state) {
      IssuedOperation first = std::move(state.operations.front());
      state.operations.pop_front();
      return first;
    });
    const std::exception_ptr error = ErrorOf(operation, ++number);
    operation.work = nullptr;  // releases its arrays before a waiter for `done` continues
    operation.after.clear();
    operation.done.Complete(error);
  }
  state_.Notify([number](State& state) { state.completed = number; });
}

void Completion::Await(uint64_t count) {
  const auto ready = [count](const State& state) { return state.completed >= count; };
  state_.Await(kNoLimit, ready, [](State&, bool) {});
}

std::exception_ptr Completion::ErrorOf(const IssuedOperation& operation, uint64_t number) {
  if (operation.forgets) failure_.reset();
  if (next_ && next_->operation == number)
    failure_ = Found{number, OfOperation(operation.done.what(), std::exchange(next_, std::nullopt)->error)};
  if (operation.error != nullptr) return operation.error;
  if (lost_ != nullptr) return lost_;
  for (const Event& event : operation.after) {
    event.WaitQuietly();  // the card has passed it, and its own thread completes it
    if (event.error() != nullptr) return event.error();
  }
  if (failure_ && operation.checks_inputs) return failure_->error;
  return operation.late_error ? operation.late_error() : nullptr;
}

}  // namespace sluice::cuda
