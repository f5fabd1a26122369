// Limits the values in servers' memory that a store's arrays have adopted. A pull into such an array brings
// newer values and returns the lease of the older ones. An adopted value is held until the array is
// destroyed or written, since reads of an array are not reported.
#pragma once

#include <list>
#include <memory>
#include <unordered_map>

#include "tensor/storage.h"

namespace sluice::worker {

// The most that a store's arrays may adopt, per shard. Even with two versions of each value this is less
// than a link may lease out (transport/shm/memory_link.h).
inline constexpr uint64_t kMostAdoptedParts = 3072, kMostAdoptedBytes = uint64_t{384} << 20;
// The most parts of all shards together: a process may have 65,530 mappings
// (vm.max_map_count), and a part takes up to four.
inline constexpr uint64_t kMostMappedParts = 8192;

// Thread safety: one thread at a time.
class AdoptionBudget {
 public:
  // Parts and bytes of values.
  struct Amount {
    uint64_t parts = 0, bytes = 0;
    void operator+=(const Amount& other) { parts += other.parts, bytes += other.bytes; }
    void operator-=(const Amount& other) { parts -= other.parts, bytes -= other.bytes; }
  };

  explicit AdoptionBudget(const Amount& room) : limit_(room) {}
  // Reserves room for a value that `storage` may adopt. A reservation that it has already is replaced,
  // whatever the size of `value`. False: there is no room, and nothing is reserved.
  bool Reserve(const std::shared_ptr<internal::Storage>& storage, const Amount& value);

 private:
  struct Adoption {
    const void* address = nullptr;  // the storage's; another one may have it once this one is destroyed
    std::weak_ptr<internal::Storage> storage;
    Amount value;
  };
  using Position = std::list<Adoption>::iterator;
  void Release(Position adoption);
  void ReleaseNextExpired();

  const Amount limit_;
  std::list<Adoption> adoptions_;  // the one that ReleaseNextExpired has looked at last is at the end
  std::unordered_map<const void*, Position> by_storage_;
  Amount used_;
};

}  // namespace sluice::worker
