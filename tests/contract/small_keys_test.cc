// Small keys of one call are sent together, as a batch. Their values and errors must be the same
// as if each key were sent by itself. Each test runs on stores of one process and, with two
// workers, on distributed ones.
#include <algorithm>

#include "base/strings.h"
#include "contract/weight_key.h"
#include "sluice/store_type.h"

namespace sluice::testing {
namespace {

class SmallKeys : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr int kKeys = 80;  // 400 KiB: more than one batch

  bool IsAsync() const { return StoreType::Parse(GetParam()).async; }
  int workers() const { return StoreType::Parse(GetParam()).distributed ? 2 : 1; }
  // Over shared memory, with this bound some frames of a message are leased and others are copied.
  Job MakeJob() const { return Job({.type = GetParam(), .workers = workers(), .min_leased_bytes = 4096}); }
  // Returns shapes from one number to more than 16 KiB, and one of a key that is split into parts.
  static Shape ShapeOf(int k) { return {k == 40 ? 200'000 : k % 10 == 3 ? 5000 : 1 + k * 31}; }

  struct Model {
    std::vector<Key> keys;
    std::vector<NDArray> gradients, weights;
    static std::vector<KVStore::Values> Lists(const std::vector<NDArray>& arrays) {
      std::vector<KVStore::Values> lists;
      for (const NDArray& array : arrays) lists.push_back({array});
      return lists;
    }
  };
  static Model MakeModel(KVStore& kv) {
    Model model;
    for (int k = 0; k < kKeys; ++k) {
      model.keys.push_back(StrCat("key ", k));
      model.gradients.push_back(Filled(kv, ShapeOf(k), k + 1));
      model.weights.push_back(Filled(kv, ShapeOf(k), 0));
    }
    kv.Init(model.keys, model.weights);
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
    return model;
  }
  void ExpectRounds(const Model& model, int rounds) const {
    for (int k = 0; k < kKeys; ++k) {
      const std::vector<float> is = model.weights[static_cast<size_t>(k)].ToVector();
      const auto other = std::ranges::find_if(
          is, [&](float value) { return value != static_cast<float>(rounds * (k + 1) * workers()); });
      EXPECT_EQ(other, is.end()) << "key " << k << ", element " << other - is.begin() << ": " << *other;
    }
  }
};

TEST_P(SmallKeys, ComeBackWithTheirRounds) {
  MakeJob().Run([&](KVStore& kv) {
    const Model model = MakeModel(kv);
    for (int round = 1; round <= 3; ++round) {
      kv.PushPull(model.keys, Model::Lists(model.gradients), Model::Lists(model.weights));
      if (!IsAsync()) ExpectRounds(model, round);
    }
    kv.WaitAll();
    kv.Barrier();
    kv.PullLatest(model.keys, Model::Lists(model.weights));
    ExpectRounds(model, 3);
  });
}

// Once Push has returned, the caller may overwrite or destroy the gradients; the pushed values count.
TEST_P(SmallKeys, GradientsAreTheCallersAgain) {
  MakeJob().Run([&](KVStore& kv) {
    Model model = MakeModel(kv);
    kv.Push(model.keys, Model::Lists(model.gradients));
    for (NDArray& gradient : model.gradients) gradient.Fill(1000);
    kv.Push(model.keys, Model::Lists(model.weights));  // zeros
    for (NDArray& gradient : model.gradients) gradient = NDArray();
    kv.WaitAll();
    kv.Barrier();
    kv.Pull(model.keys, Model::Lists(model.weights));
    ExpectRounds(model, 1);
  });
}

TEST_P(SmallKeys, WhatIsStillBeingWrittenIsWaitedFor) {
  MakeJob().Run([&](KVStore& kv) {
    Model model = MakeModel(kv);
    for (int round = 1; round <= 3; ++round) {
      // Every other gradient is still being written when it is pushed, as during a backward pass.
      for (size_t k = 0; k < kKeys; k += 2) {
        model.gradients[k].Fill(0);
        model.gradients[k].Fill(static_cast<double>(k + 1));
      }
      kv.PushPull(model.keys, Model::Lists(model.gradients), Model::Lists(model.weights));
    }
    kv.WaitAll();
    kv.Barrier();
    kv.PullLatest(model.keys, Model::Lists(model.weights));
    ExpectRounds(model, 3);
  });
}

// Keys are pushed one by one, as in a backward pass: large and small ones then share messages.
TEST_P(SmallKeys, GoOneByOneBesideALargeOne) {
  MakeJob().Run([&](KVStore& kv) {
    const Model model = MakeModel(kv);
    for (int round = 1; round <= 3; ++round) {
      for (size_t k = 0; k < kKeys; ++k)
        kv.PushPull({model.keys[k]}, {{model.gradients[k]}}, {{model.weights[k]}});
    }
    kv.WaitAll();
    kv.Barrier();
    kv.PullLatest(model.keys, Model::Lists(model.weights));
    ExpectRounds(model, 3);
  });
}

// A wait for one key does not wait for the other keys of the call.
TEST_P(SmallKeys, AreReadyEachByItself) {
  MakeJob().Run([&](KVStore& kv) {
    if (workers() == 1) return;
    const NDArray one = Filled(kv, {100}, 1);
    // Several on each shard, of which the first come earlier.
    constexpr size_t kFirst = 8;
    std::vector<Key> keys;
    std::vector<NDArray> weights;
    for (size_t k = 0; k < 2 * kFirst; ++k) {
      keys.push_back(StrCat("key ", k));
      weights.push_back(Filled(kv, {100}, 0));
    }
    kv.Init(keys, weights);
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
    if (kv.rank() == 0) {
      kv.PushPull(keys, std::vector<KVStore::Values>(keys.size(), {one}), Model::Lists(weights));
      for (size_t k = 0; k < kFirst; ++k) {
        weights[k].WaitToRead();
        if (!IsAsync()) {
          EXPECT_EQ(weights[k].ToVector().front(), 2);
        }
      }
      kv.Barrier();
    } else {
      for (size_t k = 0; k < kFirst; ++k) kv.Push(keys[k], one);
      kv.Barrier();
      for (size_t k = kFirst; k < keys.size(); ++k) kv.Push(keys[k], one);
    }
    kv.WaitAll();
  });
}

// A push does not wait for what its device computes from values that other workers are still to send.
TEST_P(SmallKeys, ArePushedBesideWorkThatWaitsForOtherWorkers) {
  Job({.type = GetParam(), .workers = workers(), .operation_timeout = std::chrono::seconds(30)})
      .Run([&](KVStore& kv) {
        if (workers() == 1) return;
        constexpr size_t kHalf = 8;  // several on each shard
        std::vector<Key> halves[2];
        std::vector<NDArray> weights, gradients;
        for (size_t k = 0; k < kHalf; ++k) {
          halves[0].push_back(StrCat("a ", k));
          halves[1].push_back(StrCat("b ", k));
          weights.push_back(Filled(kv, {100}, 0));
          gradients.push_back(Filled(kv, {100}, 1));
          gradients.back().WaitToRead();
        }
        for (const std::vector<Key>& half : halves) kv.Init(half, weights);
        kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
        kv.Barrier();
        const std::vector<Key>&first = halves[kv.rank()], &second = halves[1 - kv.rank()];
        kv.Push(first, Model::Lists(gradients));
        kv.Pull(first, Model::Lists(weights));
        const NDArray later = weights.front() + 1;
        kv.Push(second, Model::Lists(gradients));
        if (!IsAsync()) {
          EXPECT_EQ(later.ToVector().front(), 3);
        }
        kv.WaitAll();
      });
}

INSTANTIATE_TEST_SUITE_P(Stores, SmallKeys, ::testing::Values("local", "device", "dist_sync", "dist_async"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sluice::testing
