// A timeline of what this process does: the operations of every stream, what they wait for, and the pushes
// and pulls of every key of a distributed store, stage by stage. The file opens in https://ui.perfetto.dev
// and in chrome://tracing.
//
//   const Trace trace;
//   ...                              // arrays, stores, training
//   trace.Write("step.json");
//
// The times of processes on one machine have one origin, so that their files can be joined. An operation on a
// GPU is shown from when it could begin, since the host does not see when it did; it hears of the ends of up
// to 32 operations at once.
//
// Thread safety: one thread at a time; what is recorded may run on any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "sluice/error.h"

namespace sluice {

struct TraceOptions {
  int64_t max_events = 1'000'000;  // later ones are left out; the file says how many. About 100 bytes each
};

class Trace {
 public:
  // Records from now on what is issued on arrays that are made from now on, and the keys of distributed
  // stores, if the worker joins its job from now on. Throws Error(kInvalidArgument) for max_events below 1.
  // Make it after Init and before the first distributed store; it takes the place of one that exists.
  explicit Trace(const TraceOptions& options = {});
  ~Trace();  // records nothing more
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  // Writes what was recorded so far, as a whole file in place of one that was there. `process` is the name of
  // the process in the timeline. Throws Error if that fails.
  void Write(const std::string& file, const std::string& process = "this process") const;

 private:
  class Recorder;
  std::shared_ptr<Recorder> recorder_;
};

}  // namespace sluice
