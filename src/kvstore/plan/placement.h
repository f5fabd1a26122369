// Which shard owns which part of which key: pure arithmetic, the same on every node.
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
  // Set: keys of at least this many elements are cut into slices on all shards, the others stay whole
  // (MXNET_KVSTORE_BIGARRAY_BOUND). Not set: keys of at least kBigArrayBound elements are cut into as few
  // slices as balance lets them.
  std::optional<int64_t> bigarray_bound;
  // What travels in one frame: each shard's slice in `parts_of_slice`, within these bytes. The servers give
  // one part back while the next arrives.
  int64_t part_bytes = 1 << 20, least_part_bytes = 128 << 10;
  int64_t parts_of_slice = 4;
};

inline constexpr int64_t kBigArrayBound = 100'000;

// The most bytes of a slice: an eighth of what each shard would have of the store's keys so far, the slice's
// own included, were they spread evenly. So where a share is 256 KiB or more no slice takes a shard more than
// that eighth above its share. Smaller slices would be more messages for the same bytes: a key of 1 MiB goes
// to one shard in four of 256 KiB, or to two in eight of 128 KiB. Below 32 KiB a message costs more than its
// bytes; beyond 4 MiB messages do not grow, and several shards answer sooner than one (docs/design/scale.md).
uint64_t MostSliceBytes(uint64_t share);

// Gives keys to shards in the order declared. A key's slices are equal, shorter ones last, on the shards with
// the fewest bytes of its store so far, in their order; on a tie those with the fewest of all stores, then of
// lowest index. A store's keys are trained together, and balanced whatever else a job has. Cuts are at
// multiples of 64 elements, of 4 KiB where slices have 64 KiB.
class Placement {
 public:
  explicit Placement(const PlacementOptions& options);
  // Slices in element order covering [0, elements). A key without elements has no slices.
  std::vector<wire::Slice> Place(int64_t elements, DType dtype, uint32_t store = 0);
  int64_t PartElements(int64_t slice, DType dtype) const;  // a multiple of 64, of 4 KiB's from 64 KiB
  // A new key, in its place. Row-sparse ones lie on all shards alike, as RowPlaces says.
  wire::KeyEntry EntryOf(uint32_t id, const wire::KeySpec& spec, wire::SyncMode mode);
  const std::vector<uint64_t>& bytes_per_shard() const { return load_; }  // of all stores

 private:
  using Loads = std::vector<uint64_t>;  // bytes of each shard
  size_t SlicesFor(int64_t elements, uint64_t bytes, const Loads& of_store) const;
  std::vector<uint32_t> LeastLoaded(size_t count, const Loads& of_store) const;  // ascending

  PlacementOptions options_;
  Loads load_;
  std::map<uint32_t, Loads> of_stores_;
};

// A part: what travels in one payload frame, versioned on its own.
struct Part {
  uint32_t shard = 0;
  int64_t offset = 0;  // elements from the start of the key
  int64_t length = 0;
  bool operator==(const Part&) const = default;
};
// All parts of a key, in element order: index = part number on the wire.
std::vector<Part> PartsOf(const wire::KeyEntry& entry);

// Where the rows of a row-sparse key lie. Its slices are its parts; part i lies on shard i % shards. Of each
// block of `parts` consecutive rows every part has one, so that ids in use, which mostly are the low ones,
// spread evenly; which one turns from block to block, so that ids of any stride do.
struct RowPlaces {
  int64_t rows = 0;
  int64_t row_elements = 0;
  uint32_t parts = 1;

  uint32_t PartOf(int64_t row) const {
    const uint64_t block = static_cast<uint64_t>(row) / parts;
    const auto part = static_cast<uint32_t>(static_cast<uint64_t>(row) - block * parts) + TurnOf(block);
    return part < parts ? part : part - parts;
  }
  // Ascends with the rows of a part.
  uint64_t WithinPart(int64_t row) const { return static_cast<uint64_t>(row) / parts; }
  int64_t RowsOf(uint32_t part) const { return (rows - part + parts - 1) / parts; }
  bool operator==(const RowPlaces&) const = default;

 private:
  uint32_t TurnOf(uint64_t block) const {
    if ((block + 1) * parts > static_cast<uint64_t>(rows)) return 0;  // the last one, which is not whole
    return static_cast<uint32_t>((MixBits(block) >> 32) * parts >> 32);
  }
};
// On each shard up to 32 parts, so that what a push brings to one of them fits a frame; on many shards fewer,
// since every push has a frame for every part.
inline constexpr uint32_t kMostRowPartsPerShard = 32, kManyRowParts = 256;
RowPlaces PlacesOf(const wire::KeySpec& spec, uint32_t num_shards);
// Of an entry that is sound.
RowPlaces PlacesOf(const wire::KeyEntry& entry);

// Whether an entry that came over the network is sound: slices in order without gaps over the shape's size,
// shards below num_shards, part_elements positive. Empty: sound; else why not.
std::string InvalidReason(const wire::KeyEntry& entry, uint32_t num_shards);

// A worker may be at most this many rounds of a part ahead of the last closed one.
inline constexpr uint64_t kMaxRoundsAhead = 8;

}  // namespace sluice::plan
