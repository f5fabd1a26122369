#include "transport/zmq/poll_set.h"

#include <algorithm>

namespace sluice::transport {
namespace {

// Passes that end with work left, until all channels are polled again.
constexpr unsigned kBusyPasses = 4;

}  // namespace

void PollSet::Rebuild(Channel* router, Peers& peers, PayloadSharing* sharing) {
  if (!stale_) return;
  Clear();
  stale_ = false;
  if (router != nullptr) channels_.push_back(router);
  peers.RemoveDisconnected();
  for (const auto& [id, peer] : peers.all()) {
    if (!peer->dealer) continue;
    if (peer->monitor && peer->monitor->peer == nullptr) peer->monitor.reset();
    channels_.push_back(peer->dealer.get());
    if (peer->monitor) channels_.push_back(peer->monitor.get());
  }
  std::vector<Poller::Input> inputs;
  for (Channel* channel : channels_) {
    channel->drained = false;
    inputs.push_back({channel->socket.fd(), &channel->drained});
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
  channels_.clear();
}

bool PollSet::Idle() const {
  return !stale_ && sharing_drained_ &&
         std::all_of(channels_.begin(), channels_.end(), [](const Channel* c) { return c->drained; });
}

bool PollSet::HasWork() {
  for (Channel* channel : channels_) {
    if (!channel->drained) channel->drained = !channel->socket.Readable();
  }
  return !Idle();
}

void PollSet::MarkReady(Poller* poller, int ready) {
  poller->Report(ready, [](void* drained) { *static_cast<bool*>(drained) = false; });
  if (ready >= 0 && ready < Poller::kMaxReady) return;
  // More descriptors may be ready than were reported, or a signal interrupted the wait: all are read.
  for (Channel* channel : channels_) channel->drained = false;
  sharing_drained_ = !has_sharing_;
}

void PollSet::PollBusy(Poller* poller) {
  if (++busy_passes_ % kBusyPasses == 0 && (channels_.size() > 1 || has_sharing_))
    MarkReady(poller, poller->Poll());
}

}  // namespace sluice::transport
