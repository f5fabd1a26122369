#include "worker/store/store_key_table.h"

#include <algorithm>

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::worker {
namespace {

std::vector<size_t> PartLengths(const wire::KeyEntry& entry) {
  std::vector<size_t> lengths;
  for (const plan::Part& part : plan::PartsOf(entry)) lengths.push_back(static_cast<size_t>(part.length));
  return lengths;
}

std::vector<KeyRange> RangesOf(const std::vector<plan::Part>& parts, size_t width) {
  struct Range {
    KeyRange range;
    uint32_t place;  // among those that begin on one shard
  };
  std::vector<Range> ranges;
  std::map<uint32_t, uint32_t> of_shards;
  for (uint32_t i = 0; i < parts.size(); ++i) {
    const ByteRange bytes{static_cast<size_t>(parts[i].offset) * width,
                          static_cast<size_t>(parts[i].length) * width};
    const bool goes_on = !ranges.empty() && ranges.back().range.bytes.bytes + bytes.bytes <= kRangeBytes;
    if (!goes_on) ranges.push_back({{{i, i}, {bytes.offset, 0}}, of_shards[parts[i].shard]++});
    KeyRange& range = ranges.back().range;
    range.parts.end = i + 1;
    range.bytes.bytes += bytes.bytes;
  }
  std::ranges::stable_sort(ranges, {}, &Range::place);
  std::vector<KeyRange> in_order;
  for (const Range& range : ranges) in_order.push_back(range.range);
  return in_order;
}

}  // namespace

StoreKey::StoreKey(const wire::KeyEntry& entry)
    : id(entry.id),
      push("push of key " + ToString(entry.spec.name)),
      push_pull("push_pull of key " + ToString(entry.spec.name)),
      pull("pull of key " + ToString(entry.spec.name)),
      set("set of key " + ToString(entry.spec.name)),
      shape{entry.spec.shape, entry.spec.dtype, entry.spec.rows.has_value()},
      compressor("compression of key " + ToString(entry.spec.name), PartLengths(entry)) {
  if (entry.spec.rows) {
    places = plan::PlacesOf(entry);
    return;
  }
  const std::vector<plan::Part> all = plan::PartsOf(entry);
  bytes = static_cast<uint64_t>(entry.spec.shape.size()) * SizeOf(entry.spec.dtype);
  parts = all.size();
  if (!all.empty()) shard = all.front().shard;
  if (bytes >= 2 * kRangeBytes) ranges = RangesOf(all, SizeOf(entry.spec.dtype));
}

void StoreKeyTable::Add(const std::vector<wire::KeyEntry>& entries) {
  // The compressor of a known key holds a residual that is still to be sent.
  for (const wire::KeyEntry& entry : entries) keys_.try_emplace(entry.spec.name, entry);
}

StoreKey& StoreKeyTable::Find(const std::string& what, const Key& key) {
  const auto it = keys_.find(key);
  if (it == keys_.end()) {
    throw Error(
        ErrorCode::kFailedPrecondition,
        StrCat(what, " of key ", ToString(key), ": the key has not been initialised; call Init first"));
  }
  return it->second;
}

FoundKeys StoreKeyTable::FindAll(const std::string& what, const kvstore::Entries& entries) {
  FoundKeys found(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    found[i] = &Find(what, entries[i].key);
    kvstore::RequireFit(what, entries[i].key, found[i]->shape, entries[i].arrays);
  }
  return found;
}

}  // namespace sluice::worker
