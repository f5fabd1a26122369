// The connections to all shards of the job's servers. A shard's number is its index here: the shards of
// server 0 come first, then those of server 1, as in the scheduler's key table.
//
// Thread safety: the client's loop calls everything here.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/connection/shard_connection.h"
#include "worker/part_sequencer.h"

namespace sluice::worker {

class ConnectionTable {
 public:
  // `messages` must outlive the table.
  ConnectionTable(ShardConnection::Options options, MessageFactory& messages)
      : options_(std::move(options)), messages_(messages) {}

  // Connects to all shards of the roster. Call it once, when the job is complete.
  void Connect(transport::Network& network);
  void Disconnect(transport::Network& network);

  uint32_t size() const { return static_cast<uint32_t>(shards_.size()); }
  ShardConnection& operator[](uint32_t shard) { return *shards_[shard]; }
  const ShardConnection& operator[](uint32_t shard) const { return *shards_[shard]; }
  // As operator[]; throws std::out_of_range when there is no such shard.
  const ShardConnection& at(uint32_t shard) const { return *shards_.at(shard); }
  std::optional<uint32_t> ShardOf(transport::PeerId peer) const;

  // Moves the parts that the sequencer now lets through to the queues of their shards.
  void Release(PartSequencer& sequencer);
  void ReleaseInFlight(PartOp& part) { shards_[part.shard]->ReleaseInFlight(part); }
  // ShardConnection::Flush and Repeat for all shards.
  void Flush(Time now, transport::Network& network);
  void Repeat(Time now, transport::Network& network);
  Time NextTimer() const;
  // Drops what is queued and all requests.
  void Clear();
  std::string DumpState() const;  // one line for each shard

 private:
  const ShardConnection::Options options_;
  MessageFactory& messages_;
  std::vector<std::unique_ptr<ShardConnection>> shards_;
  std::map<transport::PeerId, uint32_t> shard_of_;
};

}  // namespace sluice::worker
