// The arithmetic of placement: slices of dense keys on the least loaded
// shards, parts of slices, and parts of row-sparse keys on all shards.
//
// Invariants: slices and parts cover a key in element order without gaps; all parts of a key
// but the last of each slice have the same length. The scheduler places keys on its loop's
// thread; workers and servers only call the free functions, which are pure and thread-safe.
#include "kvstore/plan/placement.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/check.h"
#include "base/strings.h"

namespace sluice::plan {
namespace {

// The unit, in elements, at which slices or parts of about `elements` elements are cut. 64
// elements make them start on a cache line whatever the dtype. Those of 64 KiB or more start on
// a page: then the parts of a key can be mapped side by side (transport/shm/contiguous_view.h).
int64_t CutOf(int64_t elements, DType dtype) {
  constexpr int64_t kLine = 64, kPageBytes = 4096, kPagedBytes = 64 << 10;
  const auto width = static_cast<int64_t>(SizeOf(dtype));
  return elements * width >= kPagedBytes ? kPageBytes / width : kLine;
}

// The slices of a row-sparse key. The first one is as long as any.
std::vector<wire::Slice> SlicesOf(const RowPlaces& places, uint32_t num_shards) {
  std::vector<wire::Slice> slices;
  int64_t offset = 0;
  for (uint32_t part = 0; part < places.parts; ++part) {
    const int64_t length = places.RowsOf(part) * places.row_elements;
    slices.push_back({.shard = part % num_shards, .offset = offset, .length = length});
    offset += length;
  }
  return slices;
}

}  // namespace

uint64_t MostSliceBytes(uint64_t share) {
  constexpr uint64_t kLeast = 32 << 10, kMost = 4 << 20;
  return std::clamp(share / 8, kLeast, kMost);
}

Placement::Placement(const PlacementOptions& options) : options_(options), load_(options.num_shards, 0) {
  SLUICE_CHECK(options.num_shards > 0 && options.bigarray_bound.value_or(1) > 0 && options.part_bytes > 0);
}

// The parts of a slice are about equal: a last part of a few bytes would
// travel in a message of its own and keep the others from being read in place.
int64_t Placement::PartElements(int64_t slice, DType dtype) const {
  const auto width = static_cast<int64_t>(SizeOf(dtype));
  const int64_t most = options_.part_bytes / width;
  const int64_t wanted =
      std::min(std::max(slice / options_.parts_of_slice, options_.least_part_bytes / width), most);
  const int64_t cut = CutOf(wanted, dtype);
  const int64_t bound = std::max(std::min((wanted + cut - 1) / cut, most / cut) * cut, cut);
  if (slice <= bound) return bound;
  const int64_t count = (slice + bound - 1) / bound, each = (slice + count - 1) / count;
  return (each + cut - 1) / cut * cut;
}

size_t Placement::SlicesFor(int64_t elements, uint64_t bytes, const Loads& of_store) const {
  const size_t shards = of_store.size();
  if (elements < options_.bigarray_bound.value_or(kBigArrayBound)) return 1;
  if (options_.bigarray_bound) return shards;
  const uint64_t most = MostSliceBytes(std::accumulate(of_store.begin(), of_store.end(), bytes) / shards);
  return static_cast<size_t>(std::min<uint64_t>(shards, (bytes + most - 1) / most));
}

std::vector<uint32_t> Placement::LeastLoaded(size_t count, const Loads& of_store) const {
  std::vector<uint32_t> shards(of_store.size());
  std::iota(shards.begin(), shards.end(), 0u);
  if (count == shards.size()) return shards;
  std::ranges::nth_element(shards, shards.begin() + static_cast<std::ptrdiff_t>(count), {},
                           [&](uint32_t shard) { return std::tuple(of_store[shard], load_[shard], shard); });
  shards.resize(count);
  std::ranges::sort(shards);
  return shards;
}

std::vector<wire::Slice> Placement::Place(int64_t elements, DType dtype, uint32_t store) {
  if (elements == 0) return {};
  const auto width = static_cast<uint64_t>(SizeOf(dtype));
  Loads& of_store = of_stores_.try_emplace(store, load_.size(), 0).first->second;
  const std::vector<uint32_t> shards =
      LeastLoaded(SlicesFor(elements, static_cast<uint64_t>(elements) * width, of_store), of_store);
  const auto count = static_cast<int64_t>(shards.size());
  const int64_t cut = CutOf(elements / count, dtype);
  const int64_t cuts = (elements + cut - 1) / cut;
  std::vector<wire::Slice> slices;
  int64_t offset = 0;
  for (int64_t i = 0; i < count && offset < elements; ++i) {
    const uint32_t shard = shards[static_cast<size_t>(i)];
    const int64_t share = cuts / count + (i < cuts % count ? 1 : 0);
    const int64_t length = std::min(share * cut, elements - offset);
    slices.push_back({.shard = shard, .offset = offset, .length = length});
    for (Loads* load : {&load_, &of_store}) (*load)[shard] += static_cast<uint64_t>(length) * width;
    offset += length;
  }
  return slices;
}

wire::KeyEntry Placement::EntryOf(uint32_t id, const wire::KeySpec& spec, wire::SyncMode mode) {
  wire::KeyEntry entry{.id = id, .spec = spec, .mode = mode, .slices = {}, .part_elements = 0};
  if (spec.rows) {
    const RowPlaces places = PlacesOf(spec, options_.num_shards);
    entry.slices = SlicesOf(places, options_.num_shards);
    entry.part_elements = entry.slices.front().length;
  } else {
    entry.slices = Place(spec.shape.size(), spec.dtype, spec.store);
    entry.part_elements = PartElements(entry.slices.empty() ? 0 : entry.slices.front().length, spec.dtype);
  }
  return entry;
}

RowPlaces PlacesOf(const wire::KeySpec& spec, uint32_t num_shards) {
  RowPlaces places{.rows = spec.shape[0], .row_elements = spec.shape.size() / spec.shape[0]};
  const uint32_t of_shard = std::clamp(kManyRowParts / num_shards, 1u, kMostRowPartsPerShard);
  places.parts = static_cast<uint32_t>(std::min(int64_t{of_shard} * num_shards, places.rows));
  return places;
}

RowPlaces PlacesOf(const wire::KeyEntry& entry) {
  return {.rows = entry.spec.shape[0],
          .row_elements = entry.spec.shape.size() / entry.spec.shape[0],
          .parts = static_cast<uint32_t>(entry.slices.size())};
}

std::vector<Part> PartsOf(const wire::KeyEntry& entry) {
  std::vector<Part> parts;
  for (const wire::Slice& slice : entry.slices) {
    for (int64_t done = 0; done < slice.length; done += entry.part_elements) {
      const int64_t length = std::min(entry.part_elements, slice.length - done);
      parts.push_back({.shard = slice.shard, .offset = slice.offset + done, .length = length});
    }
  }
  return parts;
}

std::string InvalidReason(const wire::KeyEntry& entry, uint32_t num_shards) {
  constexpr int64_t kMaxParts = int64_t{1} << 32;
  const auto why = [&](const auto&... text) {
    return StrCat("key ", wire::ToString(entry.spec), ": ", text...);
  };
  if (entry.part_elements <= 0) return why("part_elements is ", entry.part_elements);
  if (entry.spec.shape.size() / entry.part_elements > kMaxParts) return why("more than 2^32 parts");
  int64_t offset = 0;
  for (const wire::Slice& slice : entry.slices) {
    if (slice.shard >= num_shards) return why("slice on shard ", slice.shard, " of ", num_shards);
    if (slice.offset != offset || slice.length <= 0)
      return why("slice [", slice.offset, ", +", slice.length, ") after ", offset);
    if (__builtin_add_overflow(offset, slice.length, &offset)) return why("slices overflow");
  }
  if (offset != entry.spec.shape.size())
    return why("slices cover ", offset, " of ", entry.spec.shape.size(), " elements");
  if (!entry.spec.rows) return {};
  if (const std::string of_rows = InvalidReason(*entry.spec.rows, entry.spec.shape, entry.spec.dtype);
      !of_rows.empty())
    return why(of_rows);
  if (entry.slices != SlicesOf(PlacesOf(entry.spec, num_shards), num_shards) ||
      entry.part_elements != entry.slices.front().length)
    return why("its rows do not lie by turns in parts of ", num_shards, " shards");
  return {};
}

}  // namespace sluice::plan
