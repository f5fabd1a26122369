// The job's keys: what each is and where it lives. Declared once by whoever comes first, announced to every
// server before any worker hears of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "kvstore/plan/placement.h"
#include "wire/messages.h"

namespace sluice::scheduler {

class KeyTable {
 public:
  explicit KeyTable(const plan::PlacementOptions& options) : placement_(options) {}

  // All keys or none. Returns the ids in the order given. `who` is remembered for later conflicts. A key
  // whose shape, dtype or mode differs from its first declaration is kAlreadyExists, naming both; integer and
  // string keys in one store are kInvalidArgument.
  Result<std::vector<uint32_t>> Declare(const wire::DeclareKeys& request, const std::string& who);

  const std::vector<wire::KeyEntry>& entries() const { return entries_; }  // index = id

 private:
  Status Check(const wire::KeySpec& spec, wire::SyncMode mode, const std::string& who) const;

  plan::Placement placement_;
  std::vector<wire::KeyEntry> entries_;
  std::vector<std::string> declared_by_;
  using Name = std::pair<uint32_t, wire::KeyName>;  // store, key
  std::map<Name, uint32_t> ids_;
  std::map<uint32_t, uint32_t> first_;  // each store's first key
};

}  // namespace sluice::scheduler
