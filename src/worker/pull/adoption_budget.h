// Arrays whose values lie in servers' memory. Each pull into one brings newer values and gives the older
// back. They stay until the array is gone or written to: who reads it does not say so.
#pragma once

#include <list>
#include <memory>
#include <unordered_map>

#include "tensor/storage.h"

namespace sluice::worker {

// What a store lets its arrays adopt, for each shard: with two versions of each value out less than a link
// may lend (transport/shm/memory_link.h).
inline constexpr uint64_t kMostAdoptedParts = 3072, kMostAdoptedBytes = uint64_t{384} << 20;
// And of all shards: a process has 65,530 mappings (vm.max_map_count), a part up to four.
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
  // A value is on its way to `storage`, which may adopt it: there is room, or it adopted the one before.
  bool Reserve(const std::shared_ptr<internal::Storage>& storage, const Amount& value);

 private:
  struct Adoption {
    const void* address = nullptr;  // another's, perhaps, once the storage is gone
    std::weak_ptr<internal::Storage> storage;
    Amount value;
  };
  using Position = std::list<Adoption>::iterator;
  void Release(Position adoption);
  void ReleaseNextExpired();

  const Amount limit_;
  std::list<Adoption> adoptions_;  // those looked at last at the end
  std::unordered_map<const void*, Position> by_storage_;
  Amount used_;
};

}  // namespace sluice::worker
