// The job's keys: the type of each and the shards where it lies. A key is
// defined by its first declaration, and announced to every server before
// any worker receives its entry. One thread (the scheduler's loop) uses it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "kvstore/plan/placement.h"
#include "wire/messages.h"

namespace sluice::scheduler {

class JobKeyTable {
 public:
  explicit JobKeyTable(const plan::PlacementOptions& options) : placement_(options) {}

  // Declares all keys of the request or none, and returns their ids in the order given. `who` names the
  // caller in messages about later conflicts. Fails with kAlreadyExists when the shape, dtype or mode
  // of a key differs from its first declaration (the message names both), and with kInvalidArgument
  // when integer and string keys meet in one store or one request declares a key in two ways.
  Result<std::vector<uint32_t>> Declare(const wire::DeclareKeys& request, const std::string& who);

  const std::vector<wire::KeyEntry>& entries() const { return entries_; }  // by id

 private:
  Status CheckDeclaration(const wire::KeySpec& spec, wire::SyncMode mode, const std::string& who) const;

  plan::Placement placement_;
  std::vector<wire::KeyEntry> entries_;
  std::vector<std::string> declared_by_;
  using Name = std::pair<uint32_t, wire::KeyName>;  // store, key
  std::map<Name, uint32_t> ids_;
  std::map<uint32_t, uint32_t> first_;  // the id of each store's first key
};

}  // namespace sluice::scheduler
