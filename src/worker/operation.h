// What callers ask for, and the pieces it is carried out in.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/adopter.h"
#include "base/clock.h"
#include "base/inline_function.h"
#include "base/inline_vector.h"
#include "base/label.h"
#include "base/pool_allocator.h"
#include "base/result.h"
#include "compression/codec.h"
#include "wire/messages.h"

namespace sluice::worker {

// Called once, on the client's loop.
using Done = std::function<void(const Status&)>;
// The same of what every step does: one that holds an event takes no memory.
using Callback = InlineFunction<void(const Status&), 32>;

// Bytes that a pool of records keeps of what has ended.
inline constexpr size_t kKeptRecords = size_t{16} << 20;

// The client's records of what is under way come and go with the same sizes: from one pool.
template <typename K, typename V>
using RecordMap = std::map<K, V, std::less<K>, MemoryOf<std::pair<const K, V>>>;

// Memory that values land in, kept alive by its owner until the operation is done.
struct Destination {
  size_t size() const { return adopter == nullptr ? bytes.size() : adopter->size(); }

  MutableBytes bytes;
  std::shared_ptr<void> owner;
  Adopter* adopter = nullptr;  // in place of `bytes`: values that a server lends are not copied
};
// By part; those not kept are empty.
using KeptFrames = std::vector<Frame, MemoryOf<Frame>>;

enum class OpKind : uint8_t {
  kPush,      // gradient out
  kPushPull,  // gradient out, the round's weight back
  kPull,      // weight or state back
  kPullRows,  // rows back
  kVersion,   // the version alone
  kInit,      // first value out
  kState,     // optimiser state out
  kRows,      // weights of rows out
  kSet,       // a weight out, in no round
  kAwaitSet,  // the version alone, once worker 0 has set the weight
};

// Bytes within a source or a destination.
struct Extent {
  size_t offset = 0, bytes = 0;
};

// Where the parts of a call on a row-sparse key lie.
struct RowExtents {
  std::vector<Extent> sources;       // by part: of a push ids and rows (kvstore/rows/frame.h), of a pull ids
  std::vector<Extent> destinations;  // of a pull: rows; empty: nothing is wanted of that part
};

// What an operation does with a key.
struct KeyOp {
  uint32_t key = 0;
  uint64_t round = 0;  // of the push, or the smallest version to be pulled
  Destination destination;
  Callback callback = nullptr;  // its own end, of one of several in a bundle
};
using KeyOps = std::vector<KeyOp, MemoryOf<KeyOp>>;

// One call on one key, or on several (SmallKeyBatchArgs).
struct Operation {
  explicit Operation(const std::shared_ptr<Allocator>& records)
      : keys(MemoryOf<KeyOp>(records)), kept(MemoryOf<Frame>(records)) {}

  OpKind kind = OpKind::kPush;
  const char* name = nullptr;  // in messages; null: that of its kind
  KeyOps keys;
  int priority = 0;
  uint32_t slot = 0;
  uint64_t samples = 0;
  double divisor = 1;
  uint32_t exponent = 0;
  GradientCompression compression;         // of the source of a push, and of the weights wanted
  Frame source;                            // of all that carry; of several keys one by one
  std::shared_ptr<const RowExtents> rows;  // of a row-sparse key
  KeptFrames kept;                         // that came to be adopted
  Time opened{}, deadline = Time::max();
  Callback done;

  bool IsPush() const { return kind == OpKind::kPush || kind == OpKind::kPushPull; }
  bool Carries() const { return kind != OpKind::kPull && kind != OpKind::kPullRows && !WantsVersion(); }
  bool WantsVersion() const { return kind == OpKind::kVersion || kind == OpKind::kAwaitSet; }
  // Nothing that was issued later on the key goes before its end.
  bool GoesAlone() const { return kind == OpKind::kSet || kind == OpKind::kAwaitSet; }
  bool WantsValue() const {
    return kind == OpKind::kPushPull || kind == OpKind::kPull || kind == OpKind::kPullRows;
  }

  // Of operations on one key.
  KeyOp& only() { return keys[0]; }

  uint64_t number = 0;  // among the client's open operations
  size_t parts_left = 0;
  bool finished = false;                 // `done` was called; what still comes is late
  bool one_state = false;                // of an async key's weights: each shard answers from one state
  std::string waiting_for;               // what a shard last said
  uint64_t lowest_version = UINT64_MAX;  // of the values that came
};

// One part of an operation: what is queued, sent, acknowledged and answered.
struct PartOp {
  std::shared_ptr<Operation> op;
  uint32_t key_index = 0;  // of its key in the operation
  wire::PartRef ref;
  uint32_t shard = 0;
  Extent source, destination;
  uint64_t order = 0;     // of issue
  uint64_t request = 0;   // the message it was sent with
  bool released = false;  // in its shard's queue, or beyond
  bool sent = false;
  size_t in_flight = 0;  // bytes that count against its lane's window
  bool acked = false;    // the shard has the push
  bool finished = false;

  const KeyOp& key_op() const { return op->keys[key_index]; }
  uint64_t round() const { return key_op().round; }
  bool Carries() const { return op->Carries(); }
  size_t bytes() const { return Carries() ? source.bytes : destination.bytes; }  // of its message
  bool WantsValue() const { return op->WantsValue(); }
  bool WantsAnswer() const { return WantsValue() || op->WantsVersion(); }
};
using PartOpPtr = std::shared_ptr<PartOp>;
using PartOps = InlineVector<PartOpPtr, 8>;

inline const char* Name(OpKind kind) {
  constexpr const char* kNames[] = {"push", "push_pull", "pull",          "pull of rows", "version",
                                    "init", "state",     "store of rows", "set",          "set"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace sluice::worker
