// What the classes of a shard's steps work on, without the shard: workers, keys, and a network that records.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "server/job_workers.h"
#include "server/keys/shard_keys.h"
#include "server/shard_counters.h"
#include "unit/recording_network.h"
#include "unit/server/shard_harness.h"

namespace sluice::server {

class StepsFixture : public ::testing::Test {
 protected:
  explicit StepsFixture(uint32_t num_workers = 2) {
    for (uint32_t rank = 0; rank < num_workers; ++rank)
      roster.push_back({.role = wire::Role::kWorker, .rank = rank, .incarnation = 1});
    workers.Set(roster);
  }
  // A worker leaves the job.
  void Leave(uint32_t rank, wire::NodeState how) {
    roster[rank].state = how;
    workers.Set(roster);
  }
  void SetOptimizer(OptimizerKind kind) {
    OptimizerConfig config;
    config.kind = kind;
    ASSERT_TRUE(keys.SetOptimizer(config, {}, 0).ok());
  }
  // Adds a float32 key of parts of two elements.
  ShardKey& AddKey(uint32_t num_parts = 1, wire::SyncMode mode = wire::SyncMode::kSync) {
    const wire::KeyEntry entry =
        testing::ShardHarness::EntryOf(next_key_, DType::kFloat32, 2 * num_parts, mode, 2);
    EXPECT_TRUE(keys.Add({entry}).ok());
    return *keys.Find(next_key_++);
  }
  // Adds a key whose weights are all 1.
  ShardKey& AddInitialisedKey(uint32_t num_parts = 1, wire::SyncMode mode = wire::SyncMode::kSync) {
    ShardKey& key = AddKey(num_parts, mode);
    for (ShardPart& part : key.parts) EXPECT_TRUE(keys.InitialiseWeight(key, part, Values(1)));
    return key;
  }
  static Frame Values(float value) { return testing::FrameOf(std::vector<float>{value, value}); }
  static std::vector<float> WeightOf(const ShardPart& part) {
    const auto* values = reinterpret_cast<const float*>(part.weight->data());
    return {values, values + part.length};
  }

  std::vector<wire::NodeInfo> roster;
  JobWorkers workers;
  ShardKeys keys{nullptr, 0, HeapAllocator()};
  ShardCounters counters;
  testing::RecordingNetwork network;

 private:
  uint32_t next_key_ = 0;
};

}  // namespace sluice::server
