// What shards answer to the requests of a ShardConnection: acknowledgements, values, errors, status
// messages.
//
// Thread safety: the client's loop calls everything here.
#pragma once

#include "worker/gradient_stages.h"
#include "worker/operations/open_operations.h"

namespace sluice::worker {

class ShardAnswers {
 public:
  // With more than `cache_bytes` bytes of weights, delivered in one step, the weights leave the caches
  // before they are read, so non-temporal copies deliver them. All arguments must outlive this object.
  ShardAnswers(DeclaredKeys& keys, ConnectionTable& connections, OpenOperations& open, Tracer& tracer,
               size_t cache_bytes)
      : keys_(keys), connections_(connections), open_(open), tracer_(tracer), cache_bytes_(cache_bytes) {}

  // The shard has received request `id`.
  void OnAck(Time now, uint32_t shard, uint64_t id);
  // `message` has wire::Values.
  void OnValues(Time now, uint32_t shard, const wire::Message& message);
  // The shard refuses request `id`.
  void OnError(Time now, uint32_t shard, uint64_t id, const Failure& failure, transport::Network& network);
  // A shard has refused this worker's push of `round`, or never gets all of it: whatever needs that round or
  // a later one fails.
  void FailFromRound(DeclaredKey& key, uint64_t round, const Failure& failure);
  // The shard says which nodes request `id` waits for.
  void OnWaiting(uint32_t shard, uint64_t id, const wire::StillWaiting& waiting);

 private:
  void Acknowledge(Time now, PartOp& part);
  void ResendSeparately(Time now, uint32_t shard, const PartOps& parts, transport::Network& network);

  DeclaredKeys& keys_;
  ConnectionTable& connections_;
  OpenOperations& open_;
  Tracer& tracer_;
  const size_t cache_bytes_;
};

}  // namespace sluice::worker
