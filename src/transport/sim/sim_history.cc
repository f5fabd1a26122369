#include "transport/sim/sim_history.h"

#include "base/rng.h"
#include "base/strings.h"

namespace sluice::transport {

SimHistory::SimHistory(uint64_t seed, size_t max_entries) : max_entries_(max_entries), hash_(MixBits(seed)) {}

void SimHistory::Add(Time now, SimFate fate, uint32_t from, uint32_t to, const wire::Message* message) {
  const Entry entry{now,  fate, message ? static_cast<uint8_t>(message->body.index()) : uint8_t{0},
                    from, to,   message ? message->id : 0};
  hash_ = MixBits(hash_ ^ static_cast<uint64_t>(now.time_since_epoch().count()));
  hash_ = MixBits(hash_ ^ (uint64_t{from} << 40 | uint64_t{to} << 16 | uint64_t{entry.body} << 8 |
                           static_cast<uint64_t>(fate)));
  hash_ = MixBits(hash_ ^ entry.id);
  if (max_entries_ == 0) return;
  if (entries_.size() == max_entries_) entries_.pop_front();
  entries_.push_back(entry);
}

std::string SimHistory::Text(Time begin,
                             const std::function<std::string_view(uint32_t loop)>& name_of) const {
  static constexpr std::string_view kFates[] = {
      "sent",   "arrived", "dropped", "cut off", "over the bound", "no receiver", "refused",
      "starts", "task",    "timer",   "crashes", "ends",           "hangs up",    "has room"};
  std::string text;
  for (const Entry& entry : entries_) {
    text += StrCat(ToSeconds(entry.time - begin), " s  ", name_of(entry.from), " ");
    if (entry.fate < SimFate::kStarted) {
      text += StrCat("-> ", name_of(entry.to), " ", wire::BodyName(entry.body), " id ", entry.id, " ");
    }
    text += StrCat(kFates[static_cast<size_t>(entry.fate)], "\n");
  }
  return text;
}

}  // namespace sluice::transport
