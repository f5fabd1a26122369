// The keys that this worker has declared: how each is cut, how far its rounds are, and the order of the
// operations on each of its parts.
//
// Thread safety: the client's loop calls everything here.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/label.h"
#include "kvstore/plan/placement.h"
#include "transport/shm/contiguous_view.h"
#include "worker/part_sequencer.h"

namespace sluice::worker {

struct DeclaredKey {
  // The parts that `range` has of this key.
  std::span<const plan::Part> PartsIn(PartRange range) const { return In(range, std::span(parts)); }
  std::span<PartSequencer> SequencersIn(PartRange range) { return In(range, std::span(sequencers)); }
  std::span<const PartSequencer> SequencersIn(PartRange range) const {
    return In(range, std::span(sequencers));
  }

  wire::KeyEntry entry;
  Label name;
  std::vector<plan::Part> parts;
  std::vector<PartSequencer> sequencers;           // by part
  uint64_t pushed = 0;                             // the last round that this worker has pushed
  uint64_t sets = 0;                               // number of calls of Set
  std::optional<transport::ContiguousView> views;  // joins the adopted values of the key's parts
  // The first round of which a shard has refused this worker's push: it and later rounds never close.
  uint64_t refused_round = UINT64_MAX;
  std::optional<Failure> refusal;

 private:
  template <typename T>
  static std::span<T> In(PartRange range, std::span<T> all) {
    const size_t end = std::min<size_t>(range.end, all.size()), begin = std::min<size_t>(range.begin, end);
    return all.subspan(begin, end - begin);
  }
};

class DeclaredKeys {
 public:
  // Adds a key of the scheduler's table; does nothing when the key is known.
  void Add(const wire::KeyEntry& entry);

  const DeclaredKey* Find(uint32_t key) const { return key < keys_.size() ? keys_[key].get() : nullptr; }
  DeclaredKey* Find(uint32_t key) { return key < keys_.size() ? keys_[key].get() : nullptr; }
  // The entry of a known key; throws std::out_of_range for a number beyond all known ones.
  const wire::KeyEntry& entry(uint32_t key) const { return keys_.at(key)->entry; }
  // The last round that this worker has pushed of the key; 0 for an unknown key.
  uint64_t PushedRound(uint32_t key) const;
  // By key of the store (wire::KeySpec): the round that this worker pushes next.
  std::map<uint32_t, uint64_t> NextRounds(uint32_t store) const;
  uint64_t weight_bytes() const { return weight_bytes_; }  // bytes of the weights of all dense keys

  // Calls use(PartOp&) for each part of the operation that has not finished.
  template <typename Use>
  void ForPartsOf(const Operation& op, Use&& use) const {
    for (const PerKeyOp& key_op : op.keys) {
      const DeclaredKey* key = Find(key_op.key);
      if (key == nullptr) continue;
      for (const PartSequencer& sequencer : key->SequencersIn(op.range)) {
        for (const PartOpPtr& part : sequencer.ops())
          if (part->op.get() == &op && !part->finished) use(*part);
      }
    }
  }
  // Drops the operations on all parts.
  void ClearSequencers();

 private:
  std::vector<std::unique_ptr<DeclaredKey>> keys_;  // by id; null: this worker has not declared the key
  uint64_t weight_bytes_ = 0;
};

}  // namespace sluice::worker
