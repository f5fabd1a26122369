#include "worker/operations/declared_keys.h"

namespace sluice::worker {

void DeclaredKeys::Add(const wire::KeyEntry& entry) {
  if (Find(entry.id) != nullptr) return;
  if (keys_.size() <= entry.id) keys_.resize(entry.id + 1);
  auto key = std::make_unique<DeclaredKey>();
  key->entry = entry;
  key->name = wire::ToString(entry.spec);
  key->parts = plan::PartsOf(entry);
  key->sequencers.resize(key->parts.size());
  if (!entry.spec.rows)
    weight_bytes_ += static_cast<uint64_t>(entry.spec.shape.size()) * SizeOf(entry.spec.dtype);
  keys_[entry.id] = std::move(key);
}

uint64_t DeclaredKeys::PushedRound(uint32_t key) const {
  const DeclaredKey* declared = Find(key);
  return declared == nullptr ? 0 : declared->pushed;
}

std::map<uint32_t, uint64_t> DeclaredKeys::NextRounds(uint32_t store) const {
  std::map<uint32_t, uint64_t> rounds;
  for (const auto& key : keys_)
    if (key != nullptr && key->entry.spec.store == store) rounds[key->entry.id] = key->pushed + 1;
  return rounds;
}

void DeclaredKeys::ClearSequencers() {
  for (const auto& key : keys_) {
    if (key == nullptr) continue;
    for (PartSequencer& sequencer : key->sequencers) sequencer = PartSequencer();
  }
}

}  // namespace sluice::worker
