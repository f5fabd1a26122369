// StoreKeyTable has the keys that this worker has initialised in a store, with what the store remembers of
// each.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/inline_vector.h"
#include "kvstore/plan/placement.h"
#include "kvstore/store_common.h"
#include "worker/operation.h"
#include "worker/push/compressor.h"

namespace sluice::worker {

struct OperationLabels {
  explicit OperationLabels(const std::string& call) : single(call), batched(call + " and others") {}

  Label single;   // "push of key w"
  Label batched;  // the name of a small-key batch whose first key this is
};

// A range of a dense key's parts, and its bytes of the key.
struct KeyRange {
  PartRange parts;
  ByteRange bytes;
};

// Copies between a GPU and the host reach the link's full speed in both directions with so many bytes each
// (docs/design/gpu.md).
inline constexpr size_t kRangeBytes = size_t{4} << 20;

struct StoreKey {
  explicit StoreKey(const wire::KeyEntry& entry);

  uint32_t id;
  OperationLabels push, push_pull, pull;
  Label set;
  kvstore::KeyShape shape;
  plan::RowPlaces places;  // row-sparse keys only
  Compressor compressor;
  std::optional<Context> place;   // where `merged` lies, from the first push on
  NDArray merged;                 // the sum over this machine's devices
  uint64_t bytes = 0, parts = 0;  // dense keys only
  uint32_t shard = 0;             // the shard of the first part of a dense key
  // Ranges of up to kRangeBytes each, in the order in which they are sent: the shards get their first ones
  // first. Empty: the key has less than two times kRangeBytes, or is row-sparse.
  std::vector<KeyRange> ranges;
  NDArray staging;     // target of a pull of which no output is in host memory
  Event issued;        // the last operation has been submitted to the client; keeps program order
  uint64_t issue = 0;  // the number of the Issue that made `issued`
  uint64_t round = 0;  // the last round pushed
  Event traced;        // the tracer knows that this round's gradients were there; done without a tracer
  std::shared_ptr<const void> origin = std::make_shared<char>();  // marks pulled values (tensor/access.h)
};
using FoundKeys = InlineVector<StoreKey*, 8>;  // the keys of a call

// Thread safety: one thread at a time.
class StoreKeyTable {
 public:
  // Adds the keys that the servers have made. A key that is known stays as it is.
  void Add(const std::vector<wire::KeyEntry>& entries);
  // Throws Error(kFailedPrecondition) when the key has not been initialised.
  StoreKey& Find(const std::string& what, const Key& key);
  // Returns the keys of the entries. Throws when one has not been initialised or its arrays do not fit.
  FoundKeys FindAll(const std::string& what, const kvstore::Entries& entries);
  const std::map<Key, StoreKey>& keys() const { return keys_; }

 private:
  std::map<Key, StoreKey> keys_;
};

}  // namespace sluice::worker
