// Declarations whose keys come in several messages: kept until all are there, then all keys are taken or
// none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "scheduler/key_table.h"
#include "wire/messages.h"

namespace sluice::scheduler {

class PartialDeclarations {
 public:
  static constexpr uint64_t kMostKeys = 1u << 22;  // of one call

  // How it stands with the call that `request` is a part of: failed, or fine so far. The last part declares
  // the keys in `table`, which then knows them all. A part that comes again changes nothing and is answered
  // as before. `sender` is a worker's incarnation; `who` names it in messages.
  Status Add(uint64_t sender, const wire::DeclareKeys& request, const std::string& who, KeyTable* table);

 private:
  struct Call {
    uint64_t number = 0;
    wire::DeclareKeys declared;     // so far
    std::optional<Status> outcome;  // once all parts are there
  };
  std::map<uint64_t, Call> newest_;  // by sender: one Init of a worker follows the other
};

}  // namespace sluice::scheduler
