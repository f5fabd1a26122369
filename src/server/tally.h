// What a shard counts, to be told by name (wire::Stats): an increment costs no search for the name.
#pragma once

#include <array>

#include "wire/messages.h"

namespace sluice::server {

enum class Count : uint8_t {
  kBytesIn,
  kBytesOut,
  kBytesCopied,
  kPushes,
  kRepeats,
  kPulls,
  kRoundsClosed,
  kRejected,
  kWordsToWaiters,
  kAnswersPutOff,
  kMessagesOfStrangers,
};

class Tally {
 public:
  uint64_t& operator[](Count count) { return counts_[static_cast<size_t>(count)]; }
  // Those that are not 0.
  wire::Counters ByName() const {
    wire::Counters counters;
    for (size_t i = 0; i < kNames.size(); ++i)
      if (counts_[i] > 0) counters[kNames[i]] = counts_[i];
    return counters;
  }

 private:
  static constexpr std::array kNames = {
      "bytes_in",         "bytes_out",       "bytes_copied",         "pushes",
      "repeats",          "pulls",           "rounds_closed",        "rejected",
      "words_to_waiters", "answers_put_off", "messages_of_strangers"};
  static_assert(kNames.size() == static_cast<size_t>(Count::kMessagesOfStrangers) + 1);
  std::array<uint64_t, kNames.size()> counts_{};
};

}  // namespace sluice::server
