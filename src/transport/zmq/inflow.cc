#include "transport/zmq/inflow.h"

#include <algorithm>

namespace sluice::transport {

void Inflow::OnMessage(int connection, uint64_t wire_bytes) {
  const auto it = connections_.find(connection);
  if (it == connections_.end()) return;
  it->second.delivered += wire_bytes;
  it->second.heard = true;
}

uint64_t Inflow::Outstanding(const Connection& connection, Time now) const {
  const auto beats = static_cast<uint64_t>((now - connection.accepted) / limits_.heartbeat_interval) + 1;
  const uint64_t accounted = connection.delivered + beats * limits_.heartbeat_bytes;
  return connection.received > accounted ? connection.received - accounted : 0;
}

std::vector<Inflow::Excess> Inflow::Judge(Time now, bool all_read,
                                          const std::function<uint64_t(int)>& received) {
  std::vector<Excess> cut, strangers;
  uint64_t of_strangers = 0;
  in_doubt_ = false;
  for (auto& [id, connection] : connections_) {
    const uint64_t bytes = Outstanding(connection, now);
    if (bytes > limits_.max_unread || (all_read && bytes > limits_.max_partial)) {
      cut.push_back({id, bytes});
    } else if (!connection.heard) {
      strangers.push_back({id, bytes});
    }
    connection.received = received(id);
    const uint64_t now_outstanding = Outstanding(connection, now);
    if (!connection.heard) of_strangers += now_outstanding;
    if (now_outstanding > limits_.max_partial) in_doubt_ = true;
  }
  if (of_strangers > limits_.max_strangers) in_doubt_ = true;
  CutStrangers(std::move(strangers), &cut);
  for (const Excess& excess : cut) connections_.erase(excess.connection);
  return cut;
}

// The greediest first, so that an honest newcomer among them is the last to go.
void Inflow::CutStrangers(std::vector<Excess> strangers, std::vector<Excess>* cut) const {
  uint64_t total = 0;
  for (const Excess& stranger : strangers) total += stranger.bytes;
  std::sort(strangers.begin(), strangers.end(),
            [](const Excess& a, const Excess& b) { return a.bytes > b.bytes; });
  for (size_t i = 0; i < strangers.size() && total > limits_.max_strangers; ++i) {
    total -= strangers[i].bytes;
    cut->push_back(strangers[i]);
  }
}

}  // namespace sluice::transport
