// Operations of the client: what one call asks for (Operation), per key (PerKeyOp) and per part (PartOp).
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
// The same for operations of every training step: a callable that holds an event is
// stored inline, without allocation.
using Callback = InlineFunction<void(const Status&), 32>;

// Bytes of freed records that a pool keeps for new ones.
inline constexpr size_t kKeptRecords = size_t{16} << 20;

// A map whose nodes come from a pool. The client's records of open operations are allocated and freed in
// every step, always with the same sizes.
template <typename K, typename V>
using RecordMap = std::map<K, V, std::less<K>, MemoryOf<std::pair<const K, V>>>;

// Memory to which values are delivered. `owner` keeps it alive until the operation is done.
struct Destination {
  size_t size() const { return adopter == nullptr ? bytes.size() : adopter->size(); }

  MutableBytes bytes;
  std::shared_ptr<void> owner;
  Adopter* adopter = nullptr;  // in place of `bytes`: adopts leased values without a copy
};
// By part; empty for parts that are not kept.
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
struct ByteRange {
  size_t offset = 0, bytes = 0;
};

// Where the data of each part of a call on a row-sparse key lies.
struct RowByteRanges {
  std::vector<ByteRange> sources;  // by part: a push's ids and rows (kvstore/rows/row_frame.h), a pull's ids
  std::vector<ByteRange> destinations;  // by part: a pull's rows; 0 bytes: nothing is wanted of that part
};

// One key of an operation.
struct PerKeyOp {
  uint32_t key = 0;
  uint64_t round = 0;  // the push's round, or the smallest version to be pulled
  Destination destination;
  Callback callback = nullptr;  // called at the end of this key in a small-key batch; else null
};
using PerKeyOps = std::vector<PerKeyOp, MemoryOf<PerKeyOp>>;

// One call on one key, or on several (SmallKeyBatchArgs).
struct Operation {
  explicit Operation(const std::shared_ptr<Allocator>& records)
      : keys(MemoryOf<PerKeyOp>(records)), kept(MemoryOf<Frame>(records)) {}

  OpKind kind = OpKind::kPush;
  const char* name = nullptr;  // in messages; null: the name of `kind`
  PerKeyOps keys;
  int priority = 0;
  uint32_t slot = 0;
  uint64_t samples = 0;
  double divisor = 1;
  uint32_t exponent = 0;
  GradientCompression compression;  // encoding of a push's source, and of the weights that are wanted
  Frame source;                     // what is sent (HasPayload); for several keys one behind the other
  std::shared_ptr<const RowByteRanges> rows;  // row-sparse keys only
  KeptFrames kept;                            // leased values that wait to be adopted together
  Time opened{}, deadline = Time::max();
  Callback done;

  bool IsPush() const { return kind == OpKind::kPush || kind == OpKind::kPushPull; }
  bool HasPayload() const { return kind != OpKind::kPull && kind != OpKind::kPullRows && !WantsVersion(); }
  bool WantsVersion() const { return kind == OpKind::kVersion || kind == OpKind::kAwaitSet; }
  // Whether nothing that was issued later on the key is sent before this operation has ended.
  bool IsExclusive() const { return kind == OpKind::kSet || kind == OpKind::kAwaitSet; }
  bool WantsValue() const {
    return kind == OpKind::kPushPull || kind == OpKind::kPull || kind == OpKind::kPullRows;
  }

  // The key of an operation on one key.
  PerKeyOp& only() { return keys[0]; }

  uint64_t number = 0;  // its key in OpenOperations
  size_t parts_left = 0;
  bool finished = false;                 // `done` has been queued; later answers are ignored
  bool one_state = false;                // a pull of async weights: each shard answers from one state
  std::string waiting_for;               // the last status message of a shard
  uint64_t lowest_version = UINT64_MAX;  // the lowest version of the values that have arrived
};

// One part of an operation: the unit that is queued, sent, acknowledged and answered.
struct PartOp {
  std::shared_ptr<Operation> op;
  uint32_t key_index = 0;  // index in op->keys
  wire::PartRef ref;
  uint32_t shard = 0;
  ByteRange source, destination;
  uint64_t order = 0;     // order of issue
  uint64_t request = 0;   // id of the message with which it was sent
  bool released = false;  // has been moved to its shard's queue, and perhaps sent
  bool sent = false;
  size_t in_flight = 0;  // bytes that count against its lane's window
  bool acked = false;    // the shard has received the push
  bool finished = false;

  const PerKeyOp& key_op() const { return op->keys[key_index]; }
  uint64_t round() const { return key_op().round; }
  bool HasPayload() const { return op->HasPayload(); }
  // Bytes that it adds to its message, or else to the answer.
  size_t bytes() const { return HasPayload() ? source.bytes : destination.bytes; }
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
