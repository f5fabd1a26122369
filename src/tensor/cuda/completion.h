// The end of operations on a card's stream.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/guarded.h"
#include "tensor/cuda/bad_input.h"
#include "tensor/cuda/error.h"
#include "tensor/stream.h"

namespace sluice::cuda {

// An operation whose work has been issued to the card, or has failed before.
struct IssuedOperation {
  Event done;
  Events after;                // whose errors carry on to it
  Stream::Work work;           // is kept until the card has done it; may be empty
  std::exception_ptr error;    // why it could not be issued
  LateError late_error;        // may be empty
  bool checks_inputs = false;  // as CudaKernels::checks_inputs
  bool forgets = false;        // what operations before it had found is forgotten when it begins
};

// Completes the events of one stream's operations, in order, on a thread of its own, once the card has done
// their work. The stream's issuing thread calls the methods.
class Completion {
 public:
  // `card` and `name` are for messages and the thread's name.
  Completion(int card, std::string name);
  // Completes everything that was added.
  ~Completion();
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  // Adds the next operation. It completes at the next Record, or later.
  void Add(IssuedOperation operation);
  // Records that the stream gets this far. `found` lies in the card's memory; null if no operation since the
  // last call has checked its inputs.
  void Record(cudaStream_t stream, const BadInput* found);
  // Returns whether an operation has found a bad input since the last call, which has to be forgotten.
  bool TakeMustForget();
  // Waits until the first `count` operations, behind which a marker has been recorded, are complete.
  void Await(uint64_t count);

 private:
  // A place that the stream reaches. Markers are used again.
  struct Marker {
    cudaStream_t stream = nullptr;
    cudaEvent_t reached = nullptr;
    BadInput* pinned = nullptr;       // memory of the host, to which the stream copies what was found
    bool is_reached = false;          // it has been waited for: there was no memory for the two above
    bool looks = false;               // whether the stream looks for what was found
    BadInput found_before = {};       // what it was, if the marker is reached already
    uint64_t operations = 0;          // how many had been added
    cudaError_t error = cudaSuccess;  // why it was not recorded
  };
  struct State {
    std::deque<IssuedOperation> operations;
    std::deque<Marker> markers;
    std::vector<Marker> spare;
    uint64_t added = 0, completed = 0;
    bool must_forget = false, stops = false;
  };
  struct Found {
    uint64_t operation;
    std::exception_ptr error;
  };

  Marker SpareMarker();
  // Makes what `marker` has not got. Returns false if there is no memory for it.
  static bool MakeParts(Marker* marker, bool looks);
  void Run();
  std::optional<Marker> NextMarker();
  // Waits until the card has reached it.
  void AwaitMarker(const Marker& marker);
  void NoteFound(const Marker& marker);
  void CompleteUpTo(uint64_t count);
  std::exception_ptr ErrorOf(const IssuedOperation& operation, uint64_t number);

  const int card_;
  Guarded<State> state_;
  // The thread's own:
  std::exception_ptr lost_;       // the card stopped with this error
  std::optional<Found> failure_;  // what was found and is not forgotten yet
  std::optional<Found> next_;     // what an operation to come has found
  std::thread thread_;
};

}  // namespace sluice::cuda
