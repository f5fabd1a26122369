#include "gpu/runtime/stream.h"

#include "base/check.h"
#include "base/threads.h"
#include "gpu/runtime/machine.h"

namespace sluice::emulation {

void Mark::Await() {
  if (Reached()) return;
  stream_->Hurry();
  reached_.Await(
      60s, [](const bool& reached) { return reached; },
      [](const bool&, bool in_time) {
        SLUICE_CHECK(in_time) << "a stream of the test machine did not end its work in 60 s";
      });
}

}  // namespace sluice::emulation

using sluice::emulation::Mark;

CUstream_st::CUstream_st(sluice::emulation::Machine& machine, int card)
    : CUstream_st(machine, card, machine.NextSeed()) {}

CUstream_st::CUstream_st(sluice::emulation::Machine& machine, int card, uint64_t seed)
    : machine_(machine), card_(card), rng_(seed), holds_back_(seed != 0) {
  machine_.Add(this);
  thread_ = sluice::StartThread("a stream of the test machine", [this] { Work(); });
}

CUstream_st::~CUstream_st() {
  state_.Notify([](State& state) { state.stops = true; });
  thread_.join();
  machine_.Remove(this);
}

void CUstream_st::Enqueue(std::function<void()> work) {
  Add([this, work = std::move(work)] {
    if (!machine_.Lost(card_)) work();
  });
}

void CUstream_st::EnqueueGrid(unsigned blocks, unsigned threads, std::function<void()> kernel) {
  Enqueue([this, blocks, threads, kernel = std::move(kernel)] {
    if (machine_.GridFails(card_)) return;
    if (!grids_) grids_.emplace();
    grids_->Run(blocks, threads, kernel);
  });
}

void CUstream_st::Add(std::function<void()> work) {
  state_.Notify([&](State& state) {
    state.queue.push_back(std::move(work));
    ++state.enqueued;
  });
}

std::shared_ptr<Mark> CUstream_st::Record() {
  auto mark = std::make_shared<Mark>(this);
  Add([mark] { mark->Reach(); });
  return mark;
}

void CUstream_st::Hurry() {
  state_.Notify([](State& state) { state.hurried = state.enqueued; });
}

// Waits for a random time, unless somebody waits for the work.
void CUstream_st::HoldBack() {
  const sluice::Duration time =
      rng_.Below(2) == 0 ? sluice::Duration(0) : std::chrono::microseconds(rng_.Below(1000));
  state_.Await(
      time, [](const State& state) { return state.stops || state.hurried > state.done; },
      [](const State&, bool) {});
}

void CUstream_st::Work() {
  for (;;) {
    std::function<void()> work;
    state_.Await(
        sluice::kNoLimit, [](const State& state) { return state.stops || !state.queue.empty(); },
        [&](State& state, bool) {
          if (state.queue.empty()) return;
          work = std::move(state.queue.front());
          state.queue.pop_front();
        });
    if (!work) return grids_.reset();
    if (holds_back_) HoldBack();
    work();
    state_.With([](State& state) { ++state.done; });
  }
}
