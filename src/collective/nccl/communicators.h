// NCCL's communicators of several cards of this process, a rank for each card.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/guarded.h"
#include "base/mutex.h"
#include "base/result.h"
#include "collective/nccl/nccl_library.h"
#include "tensor/stream.h"

namespace sluice::collective {

// One operation, with what each rank brings to it.
struct Collective {
  enum class Kind { kReduce, kBroadcast };
  struct Part {
    const void* send = nullptr;  // broadcasts: the root's
    void* receive = nullptr;     // reductions: the root's
    cudaStream_t stream = nullptr;
  };
  Kind kind = Kind::kReduce;
  ncclDataType_t type = ncclFloat32;
  size_t count = 0;  // elements
  int root = 0;
  std::vector<Part> parts;  // by rank
};

// The communicators are made at the first operation. Whatever an operation meets, it ends: when NCCL reports
// an error, when one of the cards is lost, or when the cards have not ended it within the time, all
// communicators are aborted. From then on every operation fails with the same error, which names the cards.
//
// Thread safety: all methods may be called from any thread.
class Communicators {
 public:
  // `cards` are all different. An operation may take `most`, from its launch or the end of the one before.
  Communicators(std::vector<int> cards, std::shared_ptr<const NcclLibrary> nccl, Duration most);
  ~Communicators();  // Close has been called
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  Duration most() const { return most_; }
  // Adds an operation and returns its number. Operations are launched in this order.
  uint64_t Add();
  // Watches it; `ends` are those of its parts, one on each card.
  void Watch(uint64_t number, Events ends);
  // Launches it on every rank's stream, once few before it are under way. It may consist of several, which
  // are one group of NCCL's. Throws Error(kUnavailable).
  void Launch(uint64_t number, std::span<const Collective> operations);
  // Waits until all operations that were added have ended, and ends the communicators. No method is called
  // afterwards but ErrorOf.
  void Close();
  // Returns what it has failed with after its launch, or null. Called when the cards have ended it.
  std::exception_ptr ErrorOf(uint64_t number);

 private:
  struct Pending {
    Events ends;
    bool watched = false;
    std::optional<Time> launched;
    std::optional<Time> one_failed;  // since when one end has had an error
    bool HasEnded() const;
  };
  struct State {
    Pending& at(uint64_t number) { return pending[number - ended]; }
    std::deque<Pending> pending;  // in the order of Add
    uint64_t ended = 0;           // how many are gone from `pending`; the next one's number
    Time first_since{};           // when the one before the first of `pending` had ended
    std::optional<Failure> failure;
    uint64_t failed_from = 0;  // the first operation that the failure has met
    bool stops = false;
  };

  // Calls call(rank) for every rank in one group of NCCL's, and returns the first error.
  template <typename Call>
  ncclResult_t ForEachRank(Call&& call) SLUICE_REQUIRES(mutex_);
  // Waits until operation `number` may be launched. If that is not so in time, all operations fail.
  void AwaitRoom(uint64_t number);
  void Connect() SLUICE_REQUIRES(mutex_);
  void Enqueue(std::span<const Collective> operations) SLUICE_REQUIRES(mutex_);
  // Waits until no communicator is in progress.
  void AwaitProgress(std::string_view what) SLUICE_REQUIRES(mutex_);
  void Require(ncclResult_t result, std::string_view call) SLUICE_REQUIRES(mutex_);
  // Aborts all communicators; what is not done yet fails for this reason.
  Failure Fail(const std::string& why) SLUICE_REQUIRES(mutex_);
  void FailUnlessFailed(const std::string& why) SLUICE_REQUIRES(mutex_);
  std::string LateReason() const;
  void Destroy() SLUICE_REQUIRES(mutex_);
  std::string Names() const;

  // Returns the error that NCCL has met in an operation that was launched; empty if none.
  std::string AsyncError() SLUICE_REQUIRES(mutex_);

  void RunWatch();
  // Forgets what has ended. Returns why the first of the others cannot end any more; empty if it can.
  std::string CheckFirst();

  const std::vector<int> cards_;
  const std::shared_ptr<const NcclLibrary> nccl_;
  const Duration most_;
  const SteadyClock clock_;
  Mutex mutex_;                                              // is locked before state_
  std::vector<ncclComm_t> comms_ SLUICE_GUARDED_BY(mutex_);  // by rank; empty before and after
  Guarded<State> state_;
  std::thread watch_;
};

}  // namespace sluice::collective
