// What a shard knows of the job's keys: its parts of each, and the rule by which each key is updated.
//
// Thread safety: one thread, that of the shard's loop.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "kvstore/update/update.h"
#include "server/keys/shard_key.h"

namespace sluice::server {

using kvstore::UpdateRule;
using kvstore::ValidateRule;

class ShardKeys {
 public:
  // `updater` is the server program's own; if it is null, stores without an optimiser assign the sum. `shard`
  // is this shard's number until SetShard. Weights take their memory from `memory`.
  ShardKeys(ServerUpdater updater, uint32_t shard, std::shared_ptr<Allocator> memory);

  // This shard's number among all shards of the job: keys that are added from here on have its parts here.
  void SetShard(uint32_t shard) { shard_ = shard; }
  uint32_t shard() const { return shard_; }

  // Adds new keys and ignores known ones. The entries must be valid (plan::InvalidReason). Fails at the first
  // key that does not fit its store's update rule (ValidateRule); the keys before it have been added.
  Status Add(const std::vector<wire::KeyEntry>& entries);
  // Returns null when this shard has no part of the key, or does not know it.
  ShardKey* Find(uint32_t id) const { return id < keys_.size() ? keys_[id].get() : nullptr; }
  // Finds a part of this shard and its key. Fails with kNotFound, and names what there is not.
  Result<ShardPart*> FindPart(const wire::PartRef& ref, ShardKey** key) const;
  // All keys of which this shard has a part, in the order in which they were added.
  std::span<ShardKey* const> all() const { return all_; }

  // Gives a part of a dense key its first weight. Returns false, and changes nothing, when it has one: the
  // request is a repeat, or that of a restarted worker.
  bool InitialiseWeight(ShardKey& key, ShardPart& part, const Frame& value);
  size_t weight_bytes() const { return weight_bytes_; }  // all dense parts' here

  // This optimiser updates each key of `store` from the key's round in `first_rounds` on (from round 1 when
  // the map does not name the key), in async modes from now on. A repeat changes nothing. Fails with
  // kFailedPrecondition when the server has an updater of its own, with kInvalidArgument when the config is
  // invalid, and when a key does not fit the optimiser (ValidateRule).
  Status SetOptimizer(const OptimizerConfig& config, const std::map<uint32_t, uint64_t>& first_rounds,
                      uint32_t store);
  // The rule that updates `key` in `round`. The reference is valid until SetOptimizer.
  const UpdateRule& RuleFor(const ShardKey& key, uint64_t round) const;
  // The parts of this shard whose next round closes together with that of `part`: the part alone, or all
  // parts of the key when the update needs norms (sync modes only).
  std::span<ShardPart> PartsClosingWith(ShardKey& key, ShardPart& part) const;
  std::span<const ShardPart> PartsClosingWith(const ShardKey& key, const ShardPart& part) const;

 private:
  struct ConfiguredRule {
    std::map<uint32_t, uint64_t> first_rounds;
    UpdateRule rule;
    uint64_t FirstRound(uint32_t key) const {
      const auto it = first_rounds.find(key);
      return it == first_rounds.end() ? 1 : it->second;
    }
  };
  const UpdateRule& NewestRule(uint32_t store) const;
  void Prune(std::vector<ConfiguredRule>* set, uint32_t store) const;
  std::unique_ptr<ShardKey> MakeKey(const wire::KeyEntry& entry) const;

  const UpdateRule own_rule_;  // for stores without an optimiser: the program's updater, else assignment
  uint32_t shard_;
  const std::shared_ptr<Allocator> memory_;
  size_t weight_bytes_ = 0;
  std::vector<std::unique_ptr<ShardKey>> keys_;                 // by id; null where this shard has no part
  std::vector<ShardKey*> all_;                                  // those of keys_, as they were added
  std::map<uint32_t, std::vector<ConfiguredRule>> optimizers_;  // by store; in the order of SetOptimizer
};

// Makes the part's states those of the rule's optimiser; new states begin as zeros.
void PrepareStates(const UpdateRule& rule, const wire::KeySpec& spec, ShardPart& part);

}  // namespace sluice::server
