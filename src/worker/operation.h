// Operations of the client: what one call asks for (Operation), per key (PerKeyOp) and per part (PartOp).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer_slot.h"
#include "base/byte_range.h"
#include "base/clock.h"
#include "base/inline_function.h"
#include "base/inline_vector.h"
#include "base/label.h"
#include "base/placed_frame.h"
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
  size_t size() const { return buffer_slot == nullptr ? bytes.size() : buffer_slot->size(); }

  MutableBytes bytes;
  std::shared_ptr<void> owner;
  BufferSlot* buffer_slot = nullptr;  // in place of `bytes`: adopts leased values without a copy
  // Beside `bytes`: takes leased values, with their places in `bytes`; null: they are copied as well.
  std::shared_ptr<PlacedFrames> leased = nullptr;
};
// By part; empty for parts that are not kept.
using KeptFrames = std::vector<Frame, MemoryOf<Frame>>;

enum class OpKind : uint8_t {
  // Sends a gradient. Ends when the servers have acknowledged it; it has no deadline.
  kPush,
  // Sends a gradient and reads the weight after its round. After its deadline it goes on as a push.
  kPushPull,
  kPull,      // reads a weight or a state
  kPullRows,  // reads rows of a row-sparse key, their weights or a state
  kVersion,   // reads the version alone
  kInit,      // stores a first value
  // Stores a state of the optimiser, in float32 (float64 for float64 keys) or as rows, and its number of
  // updates, which is the operation's round. With slot 0 it stores the number alone, without a source.
  kState,
  kRows,  // stores weights of rows
  // Sets the weight between two rounds: after all rounds that this worker has pushed, before the next round
  // of any worker. Worker 0's value is set; it has no deadline and ends when the servers have acknowledged
  // it. On other workers the operation is a kAwaitSet. What is issued later on the key waits as well.
  kSet,
  // Waits until worker 0 has set the weight before the same round (async modes: as often as this worker),
  // and fails once that can no longer happen.
  kAwaitSet,
};

// The parts of a key from `begin` to before `end`.
struct PartRange {
  uint32_t begin = 0, end = UINT32_MAX;
};

// Where the data of each part of a call on a row-sparse key lies.
struct RowByteRanges {
  std::vector<ByteRange> sources;  // by part: a push's ids and rows (kvstore/rows/row_frame.h), a pull's ids
  std::vector<ByteRange> destinations;  // by part: a pull's rows; 0 bytes: nothing is wanted of that part
};

// One key of an operation.
struct PerKeyOp {
  uint32_t key = 0;
  uint64_t round = 0;  // the push's round, or the smallest version to be pulled; see Operation::latest
  Destination destination;
  Callback callback = nullptr;  // called at the end of this key in a small-key batch; else null
};
using PerKeyOps = std::vector<PerKeyOp, MemoryOf<PerKeyOp>>;

// One call on one key, or on several, from where it is made (NewOperation) to its end. The maker sets the
// kind and what the kind needs of the first group of fields, then gives the operation to Client::Submit.
//
// An operation on several small keys is sent in few messages. Each key has one part, and no key comes
// twice. The operation ends when it has ended for all keys, and fails when it fails for one of them; the
// others go on. PerKeyOp::callback reports the end of each key.
struct Operation {
  explicit Operation(const std::shared_ptr<Allocator>& records)
      : keys(MemoryOf<PerKeyOp>(records)), kept(MemoryOf<Frame>(records)) {}

  OpKind kind = OpKind::kPush;
  const char* name = nullptr;  // in messages; null: the name of `kind`
  PerKeyOps keys;
  int priority = 0;
  uint32_t slot = 0;      // 0: the weight; i: the optimiser's i-th state
  bool latest = false;    // reads any version; false: waits for this worker's last push of each key
  uint64_t samples = 0;   // a push has this and the next two
  double divisor = 1;     // wire::Push
  uint32_t exponent = 0;  // multiplies an uncompressed source by 2^exponent (wire::Push)
  // The encoding of a push's source, and that of the float32 weights that come back once this worker has
  // pushed the key; before that they come unencoded.
  GradientCompression compression;
  // What is sent (HasPayload): a gradient, or its parts one behind the other as compression::Encode writes
  // them; for several keys their gradients one behind the other; ids of rows, or rows
  // (kvstore/rows/row_frame.h).
  Frame source;
  // A call on a dense key may be several operations, each on a range of the key's parts. The source has the
  // bytes of these parts alone; the destination is the whole key's. The first one of a push begins the
  // round, the others are of the same.
  PartRange range;
  bool begins_round = true;
  uint64_t copied = 0;                        // bytes that were copied to make the source
  std::shared_ptr<const RowByteRanges> rows;  // row-sparse keys only
  // From the deadline on the operation fails with kDeadlineExceeded and a message that names what it waits
  // for.
  Time deadline = Time::max();
  Callback done;  // called exactly once

  // --- Set by the client ---
  Time opened{};
  KeptFrames kept;  // leased values that wait to be adopted together

  bool IsPush() const { return kind == OpKind::kPush || kind == OpKind::kPushPull; }
  bool HasPayload() const { return kind != OpKind::kPull && kind != OpKind::kPullRows && !WantsVersion(); }
  bool WantsVersion() const { return kind == OpKind::kVersion || kind == OpKind::kAwaitSet; }
  // Whether nothing that was issued later on the key is sent before this operation has ended.
  bool IsExclusive() const { return kind == OpKind::kSet || kind == OpKind::kAwaitSet; }
  // Whether a read is meant that waits for a version of its own choice, unlike a push_pull.
  bool ReadsVersion() const {
    return kind == OpKind::kPull || kind == OpKind::kPullRows || kind == OpKind::kVersion;
  }
  bool WantsValue() const {
    return kind == OpKind::kPushPull || kind == OpKind::kPull || kind == OpKind::kPullRows;
  }

  // The key of an operation on one key.
  PerKeyOp& only() { return keys[0]; }

  uint64_t number = 0;  // its key in OpenOperations
  size_t parts_left = 0;
  bool finished = false;          // `done` has been queued; later answers are ignored
  bool one_state = false;         // a pull of async weights: each shard answers from one state
  std::string waiting_for;        // the last status message of a shard
  std::string delayed_by;         // what a failed operation waited for that held this one up until its end
  uint64_t version = UINT64_MAX;  // the lowest version that has arrived; UINT64_MAX: none has
};

// Makes an operation without keys, or on one key. `records` is the memory of its records.
inline std::shared_ptr<Operation> NewOperation(const std::shared_ptr<Allocator>& records, OpKind kind) {
  auto op = std::allocate_shared<Operation>(MemoryOf<Operation>(records), records);
  op->kind = kind;
  return op;
}
inline std::shared_ptr<Operation> NewOperation(const std::shared_ptr<Allocator>& records, OpKind kind,
                                               uint32_t key) {
  auto op = NewOperation(records, kind);
  op->keys.push_back({.key = key, .round = 0, .destination = {}});
  return op;
}
// Makes an operation that ends when all rounds of the key that this worker has pushed are closed.
std::shared_ptr<Operation> NewAwaitRounds(const std::shared_ptr<Allocator>& records, uint32_t key);
// Makes an operation that reads the number of updates that the key's optimiser has made. `done` holds the
// operation until it is called, so submit what this returns.
std::shared_ptr<Operation> NewPullUpdates(const std::shared_ptr<Allocator>& records, uint32_t key,
                                          std::function<void(const Result<uint64_t>&)> done);

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
