// Arrays whose values lie in servers' memory. Each pull into one brings newer values and gives the older
// back; what nothing is pulled into any more is brought home in the end, since loans that stay out take a
// server's memory, and places among the loans of its link.
#pragma once

#include <list>
#include <memory>
#include <unordered_map>

#include "collective/reducer.h"

namespace sluice::worker {

// What a store lets its arrays adopt, for each shard: with two versions of each value out less than a link
// may lend (transport/shm/memory_link.h).
inline constexpr uint64_t kMostAdoptedParts = 3072, kMostAdoptedBytes = uint64_t{384} << 20;
// And of all shards: a process has 65,530 mappings (vm.max_map_count), a part up to four.
inline constexpr uint64_t kMostMappedParts = 8192;

// Thread safety: one thread at a time.
class Lodgings {
 public:
  // Parts and bytes of values.
  struct Amount {
    uint64_t parts = 0, bytes = 0;
    void operator+=(const Amount& other) { parts += other.parts, bytes += other.bytes; }
    void operator-=(const Amount& other) { parts -= other.parts, bytes -= other.bytes; }
  };

  Lodgings(const Amount& room, collective::HostWork host_work)
      : room_(room), host_work_(std::move(host_work)) {}
  // The store has one more key, of so many parts.
  void Expect(uint64_t parts) { all_parts_ += parts; }
  // A value is on its way to `storage`, which may adopt it: there is room, or it adopted the one before.
  bool Take(const std::shared_ptr<internal::Storage>& storage, const Amount& value);

 private:
  struct Lodging {
    const void* address = nullptr;  // another's, perhaps, once the storage is gone
    std::weak_ptr<internal::Storage> storage;
    Amount value;
    uint64_t since = 0;  // parts
  };
  void Leave(std::list<Lodging>::iterator lodging);
  bool IsIdle(const Lodging& lodging) const;

  const Amount room_;
  const collective::HostWork host_work_;
  std::list<Lodging> lodgings_;  // the oldest first
  std::unordered_map<const void*, std::list<Lodging>::iterator> places_;
  Amount taken_;
  uint64_t all_parts_ = 0;  // of all keys, once
  uint64_t parts_ = 0;      // that came, so far
};

}  // namespace sluice::worker
