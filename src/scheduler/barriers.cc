// Barriers of workers and servers, identified by name.
//
// A barrier opens with its first arrival, which fixes its members, and closes when all have arrived
// or when one of its workers has left the job. The last 64 releases of each member are remembered,
// so that a repeated arrival gets the same answer. The scheduler calls this on its loop's thread.
#include "scheduler/barriers.h"

#include <algorithm>

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

std::string Barriers::NamesOf(const std::set<Member>& members) {
  constexpr size_t kShown = 20;
  std::vector<std::string> names;
  for (const Member& member : members) {
    if (names.size() == kShown) return StrCat(StrJoin(names), " and ", members.size() - kShown, " more");
    names.push_back(StrCat(wire::Name(member.first), " ", member.second));
  }
  return StrJoin(names);
}

std::string Barriers::MissingText(const Open& open) {
  std::set<Member> missing;
  for (const Member& member : open.expected) {
    if (!open.arrived.contains(member)) missing.insert(member);
  }
  return NamesOf(missing);
}

const Barriers::Released* Barriers::FindReleased(const Member& member, const std::string& id) const {
  const auto of_member = released_.find(member);
  if (of_member == released_.end()) return nullptr;
  const auto it = std::ranges::find(of_member->second, id, &Released::id);
  return it == of_member->second.end() ? nullptr : &*it;
}

void Barriers::Remember(const Member& member, const Released& released) {
  constexpr size_t kRemembered = 64;
  std::deque<Released>& newest = released_[member];
  newest.push_back(released);
  if (newest.size() > kRemembered) newest.pop_front();
}

std::optional<Barriers::Member> Barriers::FirstWorker(const std::map<Member, Waiter>& arrived) {
  const auto it = arrived.lower_bound({wire::Role::kWorker, 0});
  return it != arrived.end() && it->first.first == wire::Role::kWorker ? std::optional(it->first)
                                                                       : std::nullopt;
}

Result<Barriers::Arrival> Barriers::Arrive(const wire::Barrier& barrier, const Waiter& who,
                                           const Roster& roster) {
  if (const Released* before = FindReleased(who.member, barrier.id))
    return Arrival{.released = true, .waiters = {who}, .text = before->text, .missing = {}};
  const auto refuse = [&](const auto&... why) {
    return Fail(ErrorCode::kInvalidArgument, "barrier '", barrier.id, "': ", why...);
  };
  const std::set<Member> expected = Expected(barrier, roster);
  if (!expected.contains(who.member)) {
    return refuse(wire::Name(who.member.first), " ", who.member.second, " is not one of its members, ",
                  NamesOf(expected));
  }
  if (const Member& last = *expected.rbegin();
      last.second >= roster.num_workers() && last.first == wire::Role::kWorker)
    return refuse("there is no worker ", last.second, "; the job has ", roster.num_workers());
  if (!open_.contains(barrier.id) && NumOpenOf(who.member) >= kMaxOpen)
    return refuse(wire::Name(who.member.first), " ", who.member.second, " waits in ", kMaxOpen,
                  " others already");
  Open& open = open_[barrier.id];
  if (open.expected.empty()) open.expected = expected;
  if (open.expected != expected) {
    return refuse(wire::Name(who.member.first), " ", who.member.second, " waits in it with ",
                  NamesOf(expected), ", but others do with ", NamesOf(open.expected));
  }
  open.arrived[who.member] = who;
  if (who.member == FirstWorker(open.arrived)) open.text = barrier.text;
  Arrival arrival;
  if (open.arrived.size() < open.expected.size()) {
    if (auto failure = UnsatisfiableReason(barrier.id, open, roster)) {
      open_.erase(barrier.id);
      return *std::move(failure);
    }
    arrival.missing = MissingText(open);
    return arrival;
  }
  arrival.released = true;
  arrival.text = std::make_shared<const std::string>(std::move(open.text));
  for (const auto& [member, waiter] : open.arrived) {
    arrival.waiters.push_back(waiter);
    Remember(member, {barrier.id, arrival.text});
  }
  open_.erase(barrier.id);
  return arrival;
}

std::optional<Failure> Barriers::UnsatisfiableReason(const std::string& id, const Open& open,
                                                     const Roster& roster) {
  const auto is_server = [](const Member& member) { return member.first == wire::Role::kServer; };
  if (std::ranges::any_of(open.expected, is_server)) return std::nullopt;
  for (const auto& node : roster.members()) {
    const Member member(node.info.role, node.info.rank);
    if (node.info.state != wire::NodeState::kFinished || !open.expected.contains(member) ||
        open.arrived.contains(member))
      continue;
    return Failure{ErrorCode::kUnavailable,
                   StrCat("barrier '", id, "': ", NamesOf({member}), " has left the job and will not come")};
  }
  return std::nullopt;
}

std::vector<std::pair<Barriers::Waiter, Failure>> Barriers::TakeUnsatisfiable(const Roster& roster) {
  std::vector<std::pair<Waiter, Failure>> waiters;
  std::erase_if(open_, [&](const auto& entry) {
    const auto failure = UnsatisfiableReason(entry.first, entry.second, roster);
    if (!failure) return false;
    for (const auto& [member, waiter] : entry.second.arrived) waiters.emplace_back(waiter, *failure);
    return true;
  });
  return waiters;
}

size_t Barriers::NumOpenOf(const Member& member) const {
  return static_cast<size_t>(
      std::ranges::count_if(open_, [&](const auto& entry) { return entry.second.arrived.contains(member); }));
}

std::string Barriers::Describe() const {
  std::string text;
  for (const auto& [id, open] : open_)
    text += StrCat("barrier '", id, "': waiting for ", MissingText(open), "\n");
  return text;
}

}  // namespace sluice::scheduler
