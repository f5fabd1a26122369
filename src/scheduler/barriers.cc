#include "scheduler/barriers.h"

#include "base/strings.h"

namespace sluice::scheduler {

std::set<Barriers::Member> Barriers::Expected(const wire::Barrier& barrier, const Roster& roster) {
  using Group = wire::Barrier::Group;
  std::set<Member> members;
  if (barrier.group == Group::kRanks) {
    for (const uint32_t rank : barrier.ranks) members.emplace(wire::Role::kWorker, rank);
    return members;
  }
  for (uint32_t rank = 0; rank < roster.num_workers() && barrier.group != Group::kServers; ++rank) {
    members.emplace(wire::Role::kWorker, rank);
  }
  for (uint32_t rank = 0; rank < roster.num_servers() && barrier.group != Group::kWorkers; ++rank) {
    members.emplace(wire::Role::kServer, rank);
  }
  return members;
}

std::string Barriers::MissingText(const Open& open) {
  std::vector<std::string> names;
  for (const Member& member : open.expected) {
    if (!open.arrived.contains(member)) names.push_back(StrCat(wire::Name(member.first), " ", member.second));
  }
  return StrJoin(names);
}

Result<Barriers::Arrival> Barriers::Arrive(const wire::Barrier& barrier, const Waiter& who,
                                           const Roster& roster) {
  if (const auto last = last_released_.find(who.member);
      last != last_released_.end() && last->second == barrier.id) {
    return Arrival{.released = true, .waiters = {who}, .missing = {}};
  }
  auto [it, is_new] = open_.try_emplace(barrier.id);
  Open& open = it->second;
  if (is_new) {
    open.request = barrier;
    open.expected = Expected(barrier, roster);
  }
  if (open.request != barrier || !open.expected.contains(who.member)) {
    if (open.arrived.empty()) open_.erase(it);
    return Fail(ErrorCode::kInvalidArgument, "barrier '", barrier.id, "': ", wire::Name(who.member.first),
                " ", who.member.second,
                " is not one of its members, or names other members than those who wait");
  }
  open.arrived[who.member] = who;
  Arrival arrival;
  if (open.arrived.size() < open.expected.size()) {
    arrival.missing = MissingText(open);
    return arrival;
  }
  arrival.released = true;
  for (const auto& [member, waiter] : open.arrived) {
    arrival.waiters.push_back(waiter);
    last_released_[member] = barrier.id;
  }
  open_.erase(it);
  return arrival;
}

std::string Barriers::Describe() const {
  std::string text;
  for (const auto& [id, open] : open_)
    text += StrCat("barrier '", id, "': waiting for ", MissingText(open), "\n");
  return text;
}

}  // namespace sluice::scheduler
