#include "worker/connection/connection_table.h"

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"

namespace sluice::worker {

void ConnectionTable::Connect(transport::Network& network) {
  for (const wire::NodeInfo& node : messages_.self().roster()) {
    if (node.role != wire::Role::kServer) continue;
    for (const std::string& address : node.shard_addresses) {
      auto shard =
          std::make_unique<ShardConnection>(network.Connect(address), node.rank, options_, messages_);
      shard_of_[shard->peer()] = size();
      VLOG(1) << "server " << node.rank << " has shard " << size() << " at " << address;
      // A connection counts as unauthenticated until its first message has arrived completely, so the first
      // one is small: see transport.md.
      network.Send(shard->peer(), messages_.Make(wire::Heartbeat{}, 0));
      shards_.push_back(std::move(shard));
    }
  }
}

void ConnectionTable::Disconnect(transport::Network& network) {
  for (const auto& shard : shards_) network.Disconnect(shard->peer());
}

std::optional<uint32_t> ConnectionTable::ShardOf(transport::PeerId peer) const {
  const auto it = shard_of_.find(peer);
  return it == shard_of_.end() ? std::nullopt : std::optional(it->second);
}

void ConnectionTable::Release(PartSequencer& sequencer) {
  for (PartOpPtr& part : sequencer.Release()) {
    ShardConnection& shard = *shards_[part->shard];
    shard.Enqueue(std::move(part));
  }
}

// Each worker begins with a different shard, so that not all send to the same one first.
void ConnectionTable::Flush(Time now, transport::Network& network) {
  const uint32_t first = messages_.self().rank();
  for (uint32_t i = 0; i < size(); ++i) shards_[(first + i) % size()]->Flush(now, network);
}

void ConnectionTable::Repeat(Time now, transport::Network& network) {
  for (const auto& shard : shards_) shard->Repeat(now, network);
}

Time ConnectionTable::NextTimer() const {
  Time next = Time::max();
  for (const auto& shard : shards_) next = std::min(next, shard->NextTimer());
  return next;
}

void ConnectionTable::Clear() {
  for (const auto& shard : shards_) shard->Clear();
}

std::string ConnectionTable::DumpState() const {
  std::string text;
  for (uint32_t i = 0; i < size(); ++i) text += StrCat("  shard ", i, ": ", shards_[i]->Describe(), "\n");
  return text;
}

}  // namespace sluice::worker
