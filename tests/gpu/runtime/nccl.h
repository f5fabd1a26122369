// NCCL's calls on a test machine (nccl.cc), for communicators of one process that do not block, with faults:
// a peer that does not come, and errors that come later. Without an Nccl object they fail.
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html
#pragma once

#include <nccl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/guarded.h"

namespace sluice::emulation {

// One rank's side of a collective operation.
struct CollectivePart {
  enum class Kind { kReduce, kBroadcast, kAllReduce };
  Kind kind = Kind::kReduce;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  int root = 0;
};

// The ranks that share a unique id.
class Clique {
 public:
  explicit Clique(int ranks) : state_(State{.cards = std::vector<int>(static_cast<size_t>(ranks), -1)}) {}
  // A rank joins. The same card twice is an error of all ranks, as NCCL has it.
  void Join(int rank, int card);
  // Returns ncclInProgress before all ranks have joined, and later the error, or ncclSuccess.
  ncclResult_t Result() const;
  void Fail(ncclResult_t error);
  // Called on the rank's stream: waits for all ranks' parts of the operation of this number, unless `stuck`
  // keeps its own back. The last one computes. Ends when the rank is aborted or an error comes.
  void Run(int rank, uint64_t number, const CollectivePart& part, bool stuck);
  void Abort(int rank);

 private:
  struct Operation {
    std::vector<CollectivePart> parts;  // by rank
    int arrived = 0;
    bool done = false;
  };
  struct State {
    std::vector<int> cards;  // by rank; -1: has not joined
    ncclResult_t error = ncclSuccess;
    std::set<int> aborted;  // ranks
    std::map<uint64_t, Operation> operations;
  };
  static void Finish(State& state, Operation& operation);

  Guarded<State> state_;
};

// Thread-safe.
class Nccl {
 public:
  // One at a time, beside a Machine.
  Nccl();
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;
  // The object that exists, or null.
  static Nccl* Current();

  // --- Faults ---

  // From now on nothing of this rank arrives, in any communicator. -1: everything does.
  void StickRank(int rank) {
    state_.With([&](State& state) { state.stuck = rank; });
  }
  // The operation of this number from here on, from 0, makes its communicator fail while it runs.
  void FailOperation(int64_t number, ncclResult_t error) {
    state_.With([&](State& state) { state.failing = number, state.error = error; });
  }
  // Returns how many parts of operations have been launched, each on its rank's stream.
  int64_t launched() const {
    return state_.With([](const State& state) { return state.launched; });
  }
  // Returns how many groups had operations.
  int64_t groups() const {
    return state_.With([](const State& state) { return state.groups; });
  }
  // Returns how many communicators were neither destroyed nor aborted.
  int communicators() const {
    return state_.With([](const State& state) { return state.communicators; });
  }

  // --- For NCCL's functions ---

  uint64_t NewId() {
    return state_.With([](State& state) { return ++state.ids; });
  }
  std::shared_ptr<Clique> CliqueOf(uint64_t id, int ranks);
  bool Stuck(int rank) const {
    return state_.With([&](const State& state) { return state.stuck == rank; });
  }
  // Returns the error of an operation that begins now.
  ncclResult_t NextOperation();
  void CountGroup() {
    state_.With([](State& state) { ++state.groups; });
  }
  void CountCommunicators(int by) {
    state_.With([&](State& state) { state.communicators += by; });
  }

 private:
  struct State {
    std::map<uint64_t, std::shared_ptr<Clique>> cliques;
    uint64_t ids = 0;
    int stuck = -1, communicators = 0;
    int64_t failing = -1, launched = 0, groups = 0;
    ncclResult_t error = ncclSuccess;
  };
  Guarded<State> state_;
};

}  // namespace sluice::emulation
