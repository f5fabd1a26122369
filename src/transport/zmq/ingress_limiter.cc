#include "transport/zmq/ingress_limiter.h"

#include <algorithm>

namespace sluice::transport {

void IngressLimiter::OnMessage(int connection, uint64_t wire_bytes) {
  const auto it = connections_.find(connection);
  if (it == connections_.end()) return;
  it->second.delivered += wire_bytes;
  it->second.has_sent_message = true;
}

uint64_t IngressLimiter::Outstanding(const Connection& connection, Time now) const {
  const auto beats = static_cast<uint64_t>((now - connection.accepted) / limits_.heartbeat_interval) + 1;
  const uint64_t accounted = connection.delivered + beats * limits_.heartbeat_bytes;
  return connection.received > accounted ? connection.received - accounted : 0;
}

std::vector<IngressLimiter::Excess> IngressLimiter::FindExcess(Time now, bool all_read,
                                                               const std::function<uint64_t(int)>& received) {
  std::vector<Excess> cut, unauthenticated;
  uint64_t unauthenticated_bytes = 0;
  near_limit_ = false;
  for (auto& [id, connection] : connections_) {
    const uint64_t bytes = Outstanding(connection, now);
    if (bytes > limits_.max_unread || (all_read && bytes > limits_.max_partial)) {
      cut.push_back({id, bytes});
    } else if (!connection.has_sent_message) {
      unauthenticated.push_back({id, bytes});
    }
    connection.received = received(id);
    const uint64_t now_outstanding = Outstanding(connection, now);
    if (!connection.has_sent_message) unauthenticated_bytes += now_outstanding;
    if (now_outstanding > limits_.max_partial) near_limit_ = true;
  }
  if (unauthenticated_bytes > limits_.max_unauthenticated) near_limit_ = true;
  CutUnauthenticated(std::move(unauthenticated), &cut);
  for (const Excess& excess : cut) connections_.erase(excess.connection);
  return cut;
}

// Cuts the connections with the most bytes first, so that an honest new one among them is cut last.
void IngressLimiter::CutUnauthenticated(std::vector<Excess> unauthenticated, std::vector<Excess>* cut) const {
  uint64_t total = 0;
  for (const Excess& excess : unauthenticated) total += excess.bytes;
  std::sort(unauthenticated.begin(), unauthenticated.end(),
            [](const Excess& a, const Excess& b) { return a.bytes > b.bytes; });
  for (size_t i = 0; i < unauthenticated.size() && total > limits_.max_unauthenticated; ++i) {
    total -= unauthenticated[i].bytes;
    cut->push_back(unauthenticated[i]);
  }
}

}  // namespace sluice::transport
