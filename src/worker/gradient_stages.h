// The stages of a gradient on the worker, in their order, and where the code of each is. Read this first.
//
//   reduce     The gradients of this machine's devices are summed.        collective/, dependency_executor.h
//   compress   The sum is encoded if a compression is set; the residual   push/compressor.h
//              is kept for the next push.
//   queue      The parts of the sum wait in the queues of their shards,   operations/keyed_operations.h
//              by priority. Those of a large key on a GPU come as they    connection/send_queue.h
//              are copied to the host, range by range.                    store/card_large_keys.h
//   push       Parts are sent without a copy; small parts share a         connection/shard_connection.h
//              message. The small keys of one call are copied into        small_key_batch.h
//              one block.
//   wait       The shard has the parts. The round closes when all live    server/
//              workers have pushed.
//   deliver    The weight is copied into its array, or stays in leased    pull/deliver.h
//              memory of the server, where it is read.                    transport/shm/contiguous_view.h
//   broadcast  The weight is copied to the other devices.                 collective/, dependency_executor.h
//
// Each stage reports to a Tracer. The stages from push to deliver report each part of a key separately.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace sluice::worker {

enum class Stage : uint8_t { kReduce, kCompress, kQueue, kPush, kWait, kDeliver, kBroadcast };
inline constexpr Stage kStages[] = {Stage::kReduce, Stage::kCompress, Stage::kQueue,    Stage::kPush,
                                    Stage::kWait,   Stage::kDeliver,  Stage::kBroadcast};
std::string_view Name(Stage stage);

// OnStage is called when a round of a key enters a stage, on the thread that runs the stage.
// It must be thread-safe and quick.
class Tracer {
 public:
  virtual ~Tracer() = default;
  // Called when a store gets to know a key, before its first stage.
  virtual void OnKey(uint32_t /*key*/, const std::string& /*name*/) {}
  virtual void OnStage(Time now, Stage stage, uint32_t key, uint64_t round, uint64_t bytes) = 0;
};

class NoTracer final : public Tracer {
 public:
  void OnStage(Time, Stage, uint32_t, uint64_t, uint64_t) override {}
};

}  // namespace sluice::worker
