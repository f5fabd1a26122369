// The counters of a shard. They are indexed by enumerator, so that an increment needs no look-up by
// name; the names are for wire::Stats.
#pragma once

#include <array>

#include "wire/messages.h"

namespace sluice::server {

enum class Counter : uint8_t {
  kBytesIn,
  kBytesOut,
  kBytesCopied,
  kPushes,
  kRepeats,
  kPulls,
  kRoundsClosed,
  kRejected,
  kStatusUpdates,
  kAnswersDeferred,
  kUnknownSenders,
};

class ShardCounters {
 public:
  uint64_t& operator[](Counter count) { return counts_[static_cast<size_t>(count)]; }
  // The counters that are not 0, by name.
  wire::Counters ByName() const {
    wire::Counters counters;
    for (size_t i = 0; i < kNames.size(); ++i)
      if (counts_[i] > 0) counters[kNames[i]] = counts_[i];
    return counters;
  }

 private:
  static constexpr std::array kNames = {"bytes_in",
                                        "bytes_out",
                                        "bytes_copied",
                                        "pushes",
                                        "repeats",
                                        "pulls",
                                        "rounds_closed",
                                        "rejected",
                                        "status_updates",
                                        "answers_deferred",
                                        "messages_of_unknown_senders"};
  static_assert(kNames.size() == static_cast<size_t>(Counter::kUnknownSenders) + 1);
  std::array<uint64_t, kNames.size()> counts_{};
};

}  // namespace sluice::server
