// The log of a simulation: the hash of its history, and its newest events as text.
#include "base/strings.h"
#include "transport/sim/sim_network.h"

namespace sluice::transport {

std::string_view SimNetwork::NameOf(uint32_t loop) const {
  return loop < loops_.size() ? std::string_view(loops_[loop]->name()) : "no loop yet";
}

void SimNetwork::Log(Fate fate, uint32_t from, uint32_t to, const wire::Message* message) {
  const LogEntry entry{now_, fate, message ? static_cast<uint8_t>(message->body.index()) : uint8_t{0},
                       from, to,   message ? message->id : 0};
  hash_ = MixBits(hash_ ^ static_cast<uint64_t>(now_.time_since_epoch().count()));
  hash_ = MixBits(hash_ ^ (uint64_t{from} << 40 | uint64_t{to} << 16 | uint64_t{entry.body} << 8 |
                           static_cast<uint64_t>(fate)));
  hash_ = MixBits(hash_ ^ entry.id);
  if (options_.log_entries == 0) return;
  if (log_.size() == options_.log_entries) log_.pop_front();
  log_.push_back(entry);
}

std::string SimNetwork::LogText() const {
  static constexpr std::string_view kFates[] = {
      "sent",   "arrived", "dropped", "cut off", "over the bound", "no receiver", "refused",
      "starts", "task",    "timer",   "crashes", "ends",           "hangs up",    "has room"};
  std::string text =
      StrCat("seed ", options_.seed, ", ", counters_.steps, " steps, ", counters_.delivered, " delivered, ",
             counters_.dropped, " dropped, ", counters_.duplicated, " duplicated\n");
  for (const LogEntry& entry : log_) {
    text += StrCat(ToSeconds(entry.time - kBegin), " s  ", NameOf(entry.from), " ");
    if (entry.fate < Fate::kStarted) {
      text += StrCat("-> ", NameOf(entry.to), " ", wire::BodyName(entry.body), " id ", entry.id, " ");
    }
    text += StrCat(kFates[static_cast<size_t>(entry.fate)], "\n");
  }
  for (const auto& loop : loops_) {
    if (!loop->ended()) text += StrCat("--- ", loop->name(), "\n", loop->machine_->DumpState(now_), "\n");
  }
  return text;
}

}  // namespace sluice::transport
