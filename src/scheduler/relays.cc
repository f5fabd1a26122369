#include "scheduler/relays.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace sluice::scheduler {
namespace {

// The servers that have not acknowledged, as "server 0, server 2".
std::string MissingAcks(const std::map<uint32_t, bool>& acked) {
  std::vector<std::string> names;
  for (const auto& [rank, has_acked] : acked)
    if (!has_acked) names.push_back(StrCat("server ", rank));
  return StrJoin(names);
}

}  // namespace

bool Relays::AnswerRepeated(const Member& worker, uint64_t request_id, transport::Network& network) const {
  const auto it = std::ranges::find_if(relays_, [&](const auto& entry) {
    return entry.second.requester == worker.info.incarnation && entry.second.request_id == request_id;
  });
  if (it == relays_.end()) return false;
  const Relay& relay = it->second;
  sender_.Send(worker.peer,
               wire::StillWaiting{std::string(wire::BodyName(relay.body)),
                                  MissingAcks(relay.acked) + " to acknowledge"},
               network, request_id);
  return true;
}

void Relays::Start(Time now, const Member& worker, uint64_t request_id, wire::Body body, wire::Body answer,
                   transport::Network& network) {
  Relay relay;
  relay.body = std::move(body);
  relay.answer = std::move(answer);
  relay.requester = worker.info.incarnation;
  relay.request_id = request_id;
  for (uint32_t rank = 0; rank < roster_.num_servers(); ++rank) relay.acked[rank] = false;
  const uint64_t id = next_id_++;
  SendToServers(now, id, relays_.emplace(id, std::move(relay)).first->second, network);
}

void Relays::SendToServers(Time now, uint64_t id, Relay& relay, transport::Network& network) {
  relay.next_repeat = now + repeat_interval_;
  for (const Member& member : roster_.members()) {
    if (member.info.role == wire::Role::kServer && !relay.acked[member.info.rank])
      sender_.Send(member.peer, relay.body, network, 0, id);
  }
}

std::optional<Relay> Relays::OnAck(const Member& server, uint64_t id, transport::Network& network) {
  const auto it = relays_.find(id);
  if (it == relays_.end() || server.info.role != wire::Role::kServer) return std::nullopt;
  it->second.acked[server.info.rank] = true;
  if (!std::ranges::all_of(it->second.acked, [](const auto& entry) { return entry.second; }))
    return std::nullopt;
  Relay relay = std::move(it->second);
  relays_.erase(it);
  for (const Member& worker : roster_.members()) {
    if (worker.info.incarnation == relay.requester)
      sender_.Send(worker.peer, relay.answer, network, relay.request_id);
  }
  return relay;
}

std::optional<Relay> Relays::OnError(const Member& server, uint64_t id, const wire::ErrorReply& error,
                                     transport::Network& network) {
  const auto it = relays_.find(id);
  if (it == relays_.end()) return std::nullopt;
  it->second.answer = wire::ErrorReply{error.code, StrCat(Roster::NameOf(server.info), ": ", error.message)};
  return OnAck(server, id, network);
}

void Relays::RepeatDue(Time now, transport::Network& network) {
  for (auto& [id, relay] : relays_) {
    if (now >= relay.next_repeat) SendToServers(now, id, relay, network);
  }
}

Time Relays::NextRepeat() const {
  Time next = Time::max();
  for (const auto& [id, relay] : relays_) next = std::min(next, relay.next_repeat);
  return next;
}

std::string Relays::Describe() const {
  std::string text;
  for (const auto& [id, relay] : relays_)
    text += StrCat(wire::BodyName(relay.body), " waits for ", MissingAcks(relay.acked), "\n");
  return text;
}

}  // namespace sluice::scheduler
