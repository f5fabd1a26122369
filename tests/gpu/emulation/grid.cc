// The scheduler of fibers. This file is compiled without sanitizers: what fibers do here is no work of
// theirs, and it tells TSan which fiber runs and what barriers order. Invariant: between two fibers the
// scheduler runs, on the host thread's own stack.
#include "gpu/emulation/grid.h"

#include <ucontext.h>

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/strings.h"

#ifdef SLUICE_UNDER_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace sluice::emulation {
namespace {

// What TSan is told. A switch alone orders nothing.
#ifdef SLUICE_UNDER_TSAN
void* MakeFiber() {
  return __tsan_create_fiber(0);
}
void* ThisFiber() {
  return __tsan_get_current_fiber();
}
void DestroyFiber(void* fiber) {
  __tsan_destroy_fiber(fiber);
}
void SwitchTo(void* fiber) {
  __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync);
}
void Release(void* place) {
  __tsan_release(place);
}
void Acquire(void* place) {
  __tsan_acquire(place);
}
#else
void* MakeFiber() {
  return nullptr;
}
void* ThisFiber() {
  return nullptr;
}
void DestroyFiber(void*) {}
void SwitchTo(void*) {}
void Release(void*) {}
void Acquire(void*) {}
#endif

constexpr size_t kStack = 128 * 1024;  // bytes
constexpr unsigned kMostThreads = 64;  // a block has at most so many
constexpr unsigned kWarps = kMostThreads / kWarpSize;

enum class State { kRuns, kWaitsForBlock, kWaitsForWarp, kEnded };

struct Fiber {
  unsigned index = 0;
  State state = State::kEnded;
  std::source_location place;  // where it waits
  bool second_exchange = false;
  ucontext_t context = {};
  void* tsan = nullptr;
  std::unique_ptr<std::byte[]> stack;
};

std::string Text(const std::source_location& place) {
  return StrCat(place.file_name(), ":", place.line());
}

}  // namespace

// The fibers of one runner.
class GridRunner::Fibers {
 public:
  Fibers();
  ~Fibers();
  void Run(unsigned blocks, unsigned threads, const std::function<void()>& kernel);

  // For the fiber that runs.
  void Wait(State state, const std::source_location& where);
  ExchangePlaces& NextPlaces();
  unsigned index() const { return running_->index; }
  unsigned block() const { return block_; }
  unsigned blocks() const { return blocks_; }
  unsigned threads() const { return threads_; }

 private:
  static void Body();
  void RunBlock();
  void Resume(Fiber& fiber);
  void Suspend();
  bool OpenBarrier(unsigned begin, unsigned end, State state);

  Fiber fibers_[kMostThreads];
  Fiber* running_ = nullptr;
  ucontext_t scheduler_ = {};
  void* scheduler_tsan_ = nullptr;
  const std::function<void()>* kernel_ = nullptr;
  unsigned block_ = 0, blocks_ = 0, threads_ = 0;
  // Nothing orders the last exchange of a block and the first one of the next, so blocks have two pairs in
  // turn.
  ExchangePlaces places_[kWarps][2][2] = {};
  // Addresses that stand for what is ordered: the grid's beginning and end, barriers of the block and warps.
  char begin_ = 0, end_ = 0, all_ = 0, warps_[kWarps] = {};
};

namespace {

// Kernels reach the fibers of their host thread through it.
thread_local GridRunner::Fibers* fibers_of_this_thread = nullptr;

GridRunner::Fibers& Here() {
  SLUICE_CHECK(fibers_of_this_thread != nullptr) << "the host calls what only kernels may call";
  return *fibers_of_this_thread;
}

}  // namespace

GridRunner::Fibers::Fibers() {
  for (unsigned i = 0; i < kMostThreads; ++i) {
    Fiber& fiber = fibers_[i];
    fiber.index = i;
    fiber.stack = std::make_unique<std::byte[]>(kStack);
    fiber.tsan = MakeFiber();
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStack;
    makecontext(&fiber.context, Body, 0);
  }
}

GridRunner::Fibers::~Fibers() {
  for (Fiber& fiber : fibers_) DestroyFiber(fiber.tsan);
}

// A fiber runs one block after another, and is left between two of them when the runner goes.
void GridRunner::Fibers::Body() {
  Fibers& fibers = Here();
  for (;;) {
    Acquire(&fibers.begin_);
    (*fibers.kernel_)();
    Release(&fibers.end_);
    fibers.running_->state = State::kEnded;
    fibers.Suspend();
  }
}

void GridRunner::Fibers::Run(unsigned blocks, unsigned threads, const std::function<void()>& kernel) {
  SLUICE_CHECK(threads <= kMostThreads) << threads << " threads of a block";
  fibers_of_this_thread = this;
  scheduler_tsan_ = ThisFiber();
  kernel_ = &kernel;
  blocks_ = blocks;
  threads_ = threads;
  Release(&begin_);
  for (block_ = 0; block_ < blocks; ++block_) RunBlock();
  Acquire(&end_);
  fibers_of_this_thread = nullptr;
}

void GridRunner::Fibers::RunBlock() {
  for (unsigned i = 0; i < threads_; ++i) {
    fibers_[i].state = State::kRuns;
    fibers_[i].second_exchange = false;
  }
  for (;;) {
    for (unsigned i = 0; i < threads_; ++i)
      if (fibers_[i].state == State::kRuns) Resume(fibers_[i]);
    bool goes_on = OpenBarrier(0, threads_, State::kWaitsForBlock);
    for (unsigned warp = 0; warp < kWarps; ++warp) {
      const unsigned begin = warp * kWarpSize;
      if (begin < threads_)
        goes_on |= OpenBarrier(begin, std::min(begin + kWarpSize, threads_), State::kWaitsForWarp);
    }
    if (goes_on) continue;
    for (unsigned i = 0; i < threads_; ++i) {
      SLUICE_CHECK(fibers_[i].state == State::kEnded)
          << "thread " << i << " of block " << block_ << " waits at " << Text(fibers_[i].place)
          << " for threads that do not come there";
    }
    return;
  }
}

// Lets the fibers [begin, end) go on if all that have not ended wait at this barrier. Returns whether so.
bool GridRunner::Fibers::OpenBarrier(unsigned begin, unsigned end, State state) {
  const Fiber* first = nullptr;
  for (unsigned i = begin; i < end; ++i) {
    if (fibers_[i].state == State::kEnded) continue;
    if (fibers_[i].state != state) return false;
    if (first == nullptr) first = &fibers_[i];
    SLUICE_CHECK(first->place.line() == fibers_[i].place.line())
        << "threads of one kernel are at different barriers, " << Text(first->place) << " and "
        << Text(fibers_[i].place);
  }
  for (unsigned i = begin; i < end; ++i)
    if (fibers_[i].state == state) fibers_[i].state = State::kRuns;
  return first != nullptr;
}

void GridRunner::Fibers::Resume(Fiber& fiber) {
  running_ = &fiber;
  SwitchTo(fiber.tsan);
  swapcontext(&scheduler_, &fiber.context);
  running_ = nullptr;
}

void GridRunner::Fibers::Suspend() {
  SwitchTo(scheduler_tsan_);
  swapcontext(&running_->context, &scheduler_);
}

void GridRunner::Fibers::Wait(State state, const std::source_location& where) {
  char* const order = state == State::kWaitsForBlock ? &all_ : &warps_[running_->index / kWarpSize];
  running_->state = state;
  running_->place = where;
  Release(order);
  Suspend();
  Acquire(order);
}

ExchangePlaces& GridRunner::Fibers::NextPlaces() {
  running_->second_exchange = !running_->second_exchange;
  return places_[running_->index / kWarpSize][block_ % 2][running_->second_exchange ? 1 : 0];
}

GridRunner::GridRunner() : fibers_(std::make_unique<Fibers>()) {}
GridRunner::~GridRunner() = default;

void GridRunner::Run(unsigned blocks, unsigned threads, const std::function<void()>& kernel) {
  fibers_->Run(blocks, threads, kernel);
}

uint3 ThreadIndex() {
  return {Here().index(), 0, 0};
}
uint3 BlockIndex() {
  return {Here().block(), 0, 0};
}
dim3 BlockSize() {
  return dim3(Here().threads());
}
dim3 GridSize() {
  return dim3(Here().blocks());
}

void SyncBlock(const std::source_location& where) {
  Here().Wait(State::kWaitsForBlock, where);
}

void SyncWarp(unsigned mask, const std::source_location& where) {
  SLUICE_CHECK(mask == 0xffffffff) << "a mask of only some threads of a warp, at " << Text(where);
  Here().Wait(State::kWaitsForWarp, where);
}

ExchangePlaces& NextExchangePlaces() {
  return Here().NextPlaces();
}

}  // namespace sluice::emulation
