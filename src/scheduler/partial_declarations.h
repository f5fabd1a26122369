// Declarations whose keys arrive in several messages. The parts are kept until the last has
// arrived; then all keys are declared or none. One thread (the scheduler's loop) uses it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "scheduler/job_key_table.h"
#include "wire/messages.h"

namespace sluice::scheduler {

class PartialDeclarations {
 public:
  static constexpr uint64_t kMostKeys = 1u << 22;  // keys of one call

  // Adds the part `request` to its call, and returns Ok while the call is correct so far. The
  // last part declares all keys of the call in `table`; its result is the call's. A repeated part
  // changes nothing and gets the same result. `sender` is the worker's incarnation, `who` its
  // name in messages. Fails with kInvalidArgument when a part is out of order, has another mode
  // than those before it, or the call has more than kMostKeys keys; else as JobKeyTable::Declare.
  Status Add(uint64_t sender, const wire::DeclareKeys& request, const std::string& who, JobKeyTable* table);

 private:
  struct Call {
    uint64_t number = 0;
    wire::DeclareKeys declared;     // keys that have arrived
    std::optional<Status> outcome;  // set once all parts have arrived
  };
  std::map<uint64_t, Call> newest_;  // by sender: a worker's Init calls come one after another
};

}  // namespace sluice::scheduler
