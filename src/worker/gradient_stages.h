// The journey of a gradient on the worker's side, as one ordered table. Read this first.
//
//   reduce     this machine's devices' gradients, written by backward, become one sum
//                                                                     collective/, ready_executor.h
//   compress   what is sent in its place, where a compression is set; the rest is kept for the next push
//                                                                     push/compressor.h
//   queue      the sum's parts wait for their shards, by priority     part_flow.h, push/send_queue.h
//   push       parts leave, uncopied; small ones together, small      push/requests.h
//              keys of a call copied behind each other                batch.h
//   wait       the shard has them; the round closes when all pushed   server/
//   land       the weight is copied to its array, or read where the   pull/landing.h
//              server lent it                                         transport/shm/contiguous_view.h
//   broadcast  and from there to the other devices                    collective/, ready_executor.h
//
// Every stage reports to a Tracer; a key's parts report one by one where they go their own ways.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/clock.h"

namespace sluice::worker {

enum class Stage : uint8_t { kReduce, kCompress, kQueue, kPush, kWait, kDeliver, kBroadcast };
inline constexpr Stage kStages[] = {Stage::kReduce, Stage::kCompress, Stage::kQueue,    Stage::kPush,
                                    Stage::kWait,   Stage::kDeliver,  Stage::kBroadcast};
std::string_view Name(Stage stage);

// Hears when a key's round enters a stage. Called from the thread that runs the stage: must be thread-safe
// and quick.
class Tracer {
 public:
  virtual ~Tracer() = default;
  virtual void OnStage(Time now, Stage stage, uint32_t key, uint64_t round, uint64_t bytes) = 0;
};

class NoTracer final : public Tracer {
 public:
  void OnStage(Time, Stage, uint32_t, uint64_t, uint64_t) override {}
};

}  // namespace sluice::worker
