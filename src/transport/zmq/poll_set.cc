#include "transport/zmq/poll_set.h"

#include <algorithm>

namespace sluice::transport {
namespace {

// Passes that end with work left, until all sockets are polled again.
constexpr unsigned kBusyPasses = 4;

}  // namespace

void PollSet::Rebuild(PolledSocket* router, Peers& peers, PayloadSharing* sharing) {
  if (!stale_) return;
  Clear();
  stale_ = false;
  if (router != nullptr) sockets_.push_back(router);
  peers.RemoveDisconnected();
  for (const auto& [id, peer] : peers.all()) {
    if (!peer->dealer) continue;
    if (peer->monitor && peer->monitor->peer == nullptr) peer->monitor.reset();
    sockets_.push_back(peer->dealer.get());
    if (peer->monitor) sockets_.push_back(peer->monitor.get());
  }
  std::vector<Poller::Input> inputs;
  for (PolledSocket* polled : sockets_) {
    polled->drained = false;
    inputs.push_back({polled->socket.fd(), &polled->drained});
  }
  has_sharing_ = sharing != nullptr;
  if (has_sharing_) {
    sharing->CloseUnused();
    sharing_drained_ = false;
    for (const int descriptor : sharing->descriptors()) inputs.push_back({descriptor, &sharing_drained_});
  }
  // The order matters: see Poller::Watch.
  for (Poller* poller : {&caller_poller_, &loop_poller_}) poller->Watch(inputs);
}

void PollSet::Clear() {
  for (Poller* poller : {&caller_poller_, &loop_poller_}) poller->UnwatchAll();
  sockets_.clear();
}

bool PollSet::Idle() const {
  return !stale_ && sharing_drained_ &&
         std::all_of(sockets_.begin(), sockets_.end(), [](const PolledSocket* c) { return c->drained; });
}

bool PollSet::HasWork() {
  for (PolledSocket* polled : sockets_) {
    if (!polled->drained) polled->drained = !polled->socket.Readable();
  }
  return !Idle();
}

void PollSet::MarkReady(Poller* poller, int ready) {
  poller->Report(ready, [](void* drained) { *static_cast<bool*>(drained) = false; });
  if (ready >= 0 && ready < Poller::kMaxReady) return;
  // More descriptors may be ready than were reported, or a signal interrupted the wait: all are read.
  for (PolledSocket* polled : sockets_) polled->drained = false;
  sharing_drained_ = !has_sharing_;
}

void PollSet::PollBusy(Poller* poller) {
  if (++busy_passes_ % kBusyPasses == 0 && (sockets_.size() > 1 || has_sharing_))
    MarkReady(poller, poller->Poll());
}

}  // namespace sluice::transport
