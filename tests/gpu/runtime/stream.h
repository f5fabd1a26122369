// Streams and events of a test machine. The runtime's handles point to them.
#pragma once

#include <driver_types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "base/guarded.h"
#include "base/rng.h"
#include "gpu/emulation/grid.h"

namespace sluice::emulation {

class Machine;

// Something that a stream reaches once. Thread-safe.
class Mark {
 public:
  explicit Mark(CUstream_st* stream) : stream_(stream) {}
  void Reach() {
    reached_.Notify([](bool& reached) { reached = true; });
  }
  bool Reached() const {
    return reached_.With([](const bool& reached) { return reached; });
  }
  // Waits; the stream holds nothing back meanwhile. Ends the process when the work does not end in a minute.
  void Await();

 private:
  CUstream_st* const stream_;
  Guarded<bool> reached_{false};
};

}  // namespace sluice::emulation

// A thread that does its work in order. The name is CUDA's.
struct CUstream_st {
 public:
  CUstream_st(sluice::emulation::Machine& machine, int card);
  ~CUstream_st();  // waits for the work

  int card() const { return card_; }
  // The work is left out once the card is lost.
  void Enqueue(std::function<void()> work);
  // Enqueues a grid: every thread of every block calls kernel().
  void EnqueueGrid(unsigned blocks, unsigned threads, std::function<void()> kernel);
  // Returns a mark that the stream reaches behind the work so far.
  std::shared_ptr<sluice::emulation::Mark> Record();
  void Hurry();  // hold nothing back until the work so far is done

 private:
  struct State {
    std::deque<std::function<void()>> queue;
    uint64_t enqueued = 0, done = 0, hurried = 0;
    bool stops = false;
  };
  CUstream_st(sluice::emulation::Machine& machine, int card, uint64_t seed);
  void Add(std::function<void()> work);
  void Work();
  void HoldBack();

  sluice::emulation::Machine& machine_;
  const int card_;
  sluice::Rng rng_;  // the thread's
  const bool holds_back_;
  std::optional<sluice::emulation::GridRunner> grids_;  // made by the thread for its first grid
  sluice::Guarded<State> state_;
  std::thread thread_;
};

struct CUevent_st {
  int card = 0;
  sluice::Guarded<std::shared_ptr<sluice::emulation::Mark>> mark;  // null before the first record
};
