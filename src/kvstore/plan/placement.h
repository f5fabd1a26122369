// The placement of keys on shards. It is pure arithmetic:
// every node computes the same parts from a key's entry.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "sluice/dtype.h"
#include "wire/messages.h"

namespace sluice::plan {

struct PlacementOptions {
  uint32_t num_shards = 1;
  // When set, keys of at least this many elements are cut into slices on all shards,
  // and the others stay whole (MXNET_KVSTORE_BIGARRAY_BOUND). When not set, keys of
  // at least kBigArrayBound elements are cut into as few slices as balance allows.
  std::optional<int64_t> bigarray_bound;
  // A part travels in one frame. A slice is cut into `parts_of_slice`
  // parts, each of at least least_part_bytes and at most part_bytes:
  // with several, the server returns one part while the next arrives.
  int64_t part_bytes = 1 << 20, least_part_bytes = 128 << 10;
  int64_t parts_of_slice = 4;
};

inline constexpr int64_t kBigArrayBound = 100'000;

// The most bytes of a slice: an eighth of `share`, within 32 KiB and 4 MiB. `share` is what each shard
// would have of the store's keys so far, the new key included, if they were spread evenly. So where a
// share is 256 KiB or more, no slice raises a shard by more than that eighth above its share. Smaller
// slices would mean more messages for the same bytes: a key of 1 MiB goes to one shard in four messages
// of 256 KiB, or to two shards in eight of 128 KiB. Below 32 KiB a message costs more than its bytes;
// beyond 4 MiB messages do not grow, and several shards answer sooner than one (docs/design/scale.md).
uint64_t MostSliceBytes(uint64_t share);

// Assigns keys to shards in the order declared. The slices of a key are equal, shorter ones
// last. They go to the shards with the fewest bytes of the key's store so far, in the shards'
// order; ties go to the shards with the fewest bytes of all stores, then to the lowest index.
// Each store is balanced by itself, since the keys of a store are trained together. Cuts are
// at multiples of 64 elements, or of 4 KiB where slices have 64 KiB or more. Not thread-safe.
class Placement {
 public:
  explicit Placement(const PlacementOptions& options);
  // Slices in element order covering [0, elements). A key without elements has no slices.
  std::vector<wire::Slice> Place(int64_t elements, DType dtype, uint32_t store = 0);
  // Elements of a part of a slice of `slice` elements: a
  // multiple of 64, or of 4 KiB where parts have 64 KiB or more.
  int64_t PartElements(int64_t slice, DType dtype) const;
  // Places a new key and returns its entry. The parts of
  // row-sparse keys lie on all shards, as RowPlaces says.
  wire::KeyEntry EntryOf(uint32_t id, const wire::KeySpec& spec, wire::SyncMode mode);
  const std::vector<uint64_t>& bytes_per_shard() const { return load_; }  // for all stores

 private:
  using Loads = std::vector<uint64_t>;  // bytes of each shard
  size_t SlicesFor(int64_t elements, uint64_t bytes, const Loads& of_store) const;
  std::vector<uint32_t> LeastLoaded(size_t count, const Loads& of_store) const;  // in ascending order

  PlacementOptions options_;
  Loads load_;
  std::map<uint32_t, Loads> of_stores_;
};

// A part travels in one payload frame and has a version of its own.
struct Part {
  uint32_t shard = 0;
  int64_t offset = 0;  // elements from the start of the key
  int64_t length = 0;
  bool operator==(const Part&) const = default;
};
// All parts of a key in element order; the index is the part number on the wire.
std::vector<Part> PartsOf(const wire::KeyEntry& entry);

// The places of the rows of a row-sparse key. Its slices are its parts; part i lies on shard
// i % shards. Each block of `parts` consecutive rows has one row in every part, so that the
// ids in use, which mostly are the low ones, spread evenly. Which row goes to which part is
// rotated from block to block by a hash, so that ids of any stride spread evenly, too.
struct RowPlaces {
  int64_t rows = 0;
  int64_t row_elements = 0;
  uint32_t parts = 1;

  uint32_t PartOf(int64_t row) const {
    const uint64_t block = static_cast<uint64_t>(row) / parts;
    const auto part = static_cast<uint32_t>(static_cast<uint64_t>(row) - block * parts) + RotationOf(block);
    return part < parts ? part : part - parts;
  }
  // The index of a row within its part; it ascends with the rows of the part.
  uint64_t WithinPart(int64_t row) const { return static_cast<uint64_t>(row) / parts; }
  int64_t RowsOf(uint32_t part) const { return (rows - part + parts - 1) / parts; }
  bool operator==(const RowPlaces&) const = default;

 private:
  uint32_t RotationOf(uint64_t block) const {
    if ((block + 1) * parts > static_cast<uint64_t>(rows)) return 0;  // the last block, when it is not whole
    return static_cast<uint32_t>((MixBits(block) >> 32) * parts >> 32);
  }
};
// A row-sparse key has up to kMostRowPartsPerShard parts on each shard, so that what a
// push sends to one of them fits a frame. On many shards it has fewer, about kManyRowParts
// in all but at least one per shard, since every push has a frame for every part.
inline constexpr uint32_t kMostRowPartsPerShard = 32, kManyRowParts = 256;
RowPlaces PlacesOf(const wire::KeySpec& spec, uint32_t num_shards);
// The same for an entry, which must be valid (InvalidReason).
RowPlaces PlacesOf(const wire::KeyEntry& entry);

// Why an entry that came over the network is invalid; empty when it is valid: its
// slices cover the shape's size in order and without gaps, shards are below num_shards,
// and part_elements is positive. Slices of row-sparse keys must be those of PlacesOf.
std::string InvalidReason(const wire::KeyEntry& entry, uint32_t num_shards);

// A worker may be at most this many rounds of a part ahead of the last closed one.
inline constexpr uint64_t kMaxRoundsAhead = 8;

}  // namespace sluice::plan
