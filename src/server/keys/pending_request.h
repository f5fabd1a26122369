// A request that waits on a part for its answer. A plain value, without a thread or a clock of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/buffer.h"
#include "base/clock.h"
#include "sluice/compression.h"
#include "transport/transport.h"

namespace sluice::server {

// A request that is answered later: a pull, or a push that wants the value. A part keeps one per worker,
// slot and form of the value (for rows one per request), and a repeat replaces the one before.
struct PendingRequest {
  // Whether both wait for the same value in the same form, for the same worker.
  bool AsksFor(const PendingRequest& other) const {
    return rank == other.rank && slot == other.slot && want_data == other.want_data &&
           awaits_set == other.awaits_set && as == other.as;
  }

  uint32_t rank = 0;
  uint32_t slot = 0;
  uint64_t min_version = 0;
  bool want_data = true;
  // The request waits for worker 0 to set the weight: in sync modes the weight of version min_version, in
  // async modes until worker 0 has set it min_version times.
  bool awaits_set = false;
  transport::PeerId peer;
  uint64_t request_id = 0;
  Compression as = Compression::kNone;  // encoding in which the weight is wanted
  size_t share = SIZE_MAX;              // most bytes of values in one message of the answer
  Frame ids = {};                       // row-sparse keys: ids of the rows that are wanted
  // The value is available, but the answer is deferred until the peer has room.
  bool deferred = false;
  // The value of a deferred answer for an async key of several parts: all
  // parts of a pull must show one state.
  struct Pinned {
    Frame value;
    uint64_t version = 0;                   // the version that the answer names
    std::shared_ptr<const uint64_t> state;  // the part's version; one object per state (ShardKey::pinned)
  };
  std::optional<Pinned> pinned = std::nullopt;
  Time next_status_at = Time::max();  // time of the next status message (StillWaiting)
  Duration pause{};                   // the time between the last status message and the next one
};

}  // namespace sluice::server
