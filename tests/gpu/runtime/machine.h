// A machine with cards, for tests: the functions of the CUDA runtime work on it (calls.cc), which take the
// place of NVIDIA's library in the test program. Memory of a card is memory of the process; under ASan only
// kernels and copies may touch it. A stream is a thread. Kernels run as tests/gpu/emulation/ says.
//
//   Machine machine({.cards = 2, .seed = 7});   // from here on cudaGetDeviceCount says 2
//   machine.FailCall(40, cudaErrorMemoryAllocation);
//
// The behaviour follows https://docs.nvidia.com/cuda/cuda-runtime-api/ as far as the library uses it. Calls
// for the default stream fail, since work on it would wait for every other stream.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/guarded.h"
#include "gpu/runtime/memory.h"

namespace sluice::emulation {

struct MachineOptions {
  int cards = 1;
  size_t memory = size_t{1} << 30;  // bytes of each card
  // Streams hold work back for times that follow from the seed, or until somebody waits for it; 0: they
  // work at once.
  uint64_t seed = 0;
  bool peers = true;            // a card can reach the memory of the others
  int driver = CUDART_VERSION;  // the CUDA version of its driver; 0: none
};

class Machine {
 public:
  // One at a time.
  explicit Machine(const MachineOptions& options = {});
  // Nothing may call the runtime any more.
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // The machine that exists, or null.
  static Machine* Current();

  // --- Faults ---

  // The call of this number from here on, from 0, does nothing and returns `error`, wherever it comes from.
  // Calls that only name an error or the current card have no number, nor have questions for events that are
  // not reached.
  void FailCall(int64_t number, cudaError_t error);
  // Returns how many numbered calls there were since the last FailCall, or since the beginning.
  int64_t calls() const { return calls_; }
  // The grid of this number from here on, from 0, meets an illegal address: from then on every call for its
  // card fails, and no work of the card runs.
  void FailGrid(int64_t number);
  // Returns how many grids have run since the last FailGrid, or since the beginning.
  int64_t grids() const { return grids_; }

  // From here on no memory, pinned memory or event is made, for lack of memory.
  void SetOutOfMemory(bool out) { out_of_memory_ = out; }
  bool out_of_memory() const { return out_of_memory_; }

  // --- What is left ---

  // Returns what has not been given back ("400 bytes of a card, 2 streams"), empty if all has.
  std::string Leaks() const;

  // --- For the functions of the runtime ---

  const MachineOptions& options() const { return options_; }
  Memory& memory() { return memory_; }
  // Counts a call for `card` and returns the error that it must return, or cudaSuccess.
  cudaError_t Begin(int card);
  // Returns whether this grid is the one that fails, and marks the card as lost if it is.
  bool GridFails(int card);
  bool Lost(int card) const { return lost_[static_cast<size_t>(card)].load(std::memory_order_relaxed); }
  // Whether the process has a context on the card: something has been made there, or it was chosen.
  bool IsOpen(int card) const { return open_[static_cast<size_t>(card)].load(std::memory_order_relaxed); }
  void Open(int card) { open_[static_cast<size_t>(card)].store(true, std::memory_order_relaxed); }
  uint64_t NextSeed();  // for a stream; 0 if streams work at once
  void Add(CUstream_st* stream);
  void Remove(CUstream_st* stream);
  void CountEvents(int by) { events_ += by; }
  // Notes that a card reaches the memory of the other, and returns false if it has before.
  bool EnablePeer(int card, int other) {
    return peers_.With([=](auto& peers) { return peers.emplace(card, other).second; });
  }
  // Returns how many pairs of a card and another whose memory it reaches there are.
  size_t peers() const {
    return peers_.With([](const auto& peers) { return peers.size(); });
  }
  // Waits for the work so far of all streams of the card.
  void Await(int card);

 private:
  const MachineOptions options_;
  Memory memory_;
  // What counts and fails orders nothing: TSan would not see a race between calls that it ordered.
  std::vector<std::atomic<bool>> lost_, open_;  // by card
  std::atomic<bool> out_of_memory_ = false;
  std::atomic<int64_t> calls_ = 0, failing_call_ = -1, grids_ = 0, failing_grid_ = -1;
  std::atomic<cudaError_t> error_ = cudaSuccess;
  std::atomic<uint64_t> streams_made_ = 0;
  std::atomic<int> events_ = 0;
  Guarded<std::set<CUstream_st*>> streams_;
  Guarded<std::set<std::pair<int, int>>> peers_;
};

}  // namespace sluice::emulation
