// Invalid arguments in every call of every store. Each throws an Error that names the call and the key, and
// has no effect: no round is pushed, and no key is initialised.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "contract/weight_key.h"
#include "sluice/store_type.h"
#include "unit/public/calls.h"

namespace sluice::testing {
namespace {

class NullArguments : public ::testing::TestWithParam<std::string> {
 protected:
  int workers() const { return StoreType::Parse(GetParam()).distributed ? 2 : 1; }
};

using Lists = std::vector<KVStore::Values>;

const std::vector<Key> kOne = {"w"}, kTwo = {"w", "v"};
const double kNan = std::nan("");

NDArray MovedFrom(const KVStore& kv) {
  NDArray array = Filled(kv, kShape, 1);
  const NDArray taken = std::move(array);
  return array;
}

void ExpectErrorsOfInitPushAndSet(KVStore& kv) {
  const NDArray x = Filled(kv, kShape, 1), moved = MovedFrom(kv);
  ExpectErrors({
      {"Init of none", "key v", [&] { kv.Init("v", NDArray()); }},
      {"Init of what was moved from", "key v", [&] { kv.Init("v", moved); }},
      {"Init unlike", "Init", [&] { kv.Init(kTwo, std::vector{x}); }},
      {"Push of none", "key w", [&] { kv.Push("w", NDArray()); }},
      {"Push of what was moved from", "key w", [&] { kv.Push("w", moved); }},
      {"Push of no device", "key w", [&] { kv.Push(kOne, Lists{{}}); }},
      {"Push unlike", "Push", [&] { kv.Push(kTwo, Lists{{x}}); }},
      {"Push NaN", "divisor", [&] { kv.Push("w", x, {.divisor = kNan}); }},
      {"Push of a key that is not there", "key v",
       [&] {
         kv.Push(kTwo, Lists{{x}, {x}});
       }},
      {"Set of none", "key w", [&] { kv.Set("w", NDArray()); }},
      {"Set of what was moved from", "key w", [&] { kv.Set("w", moved); }},
      {"Set unlike", "Set", [&] { kv.Set(kTwo, std::vector{x}); }},
      {"Set of a key that is not there", "key v", [&] { kv.Set("v", x); }},
  });
}

void ExpectErrorsOfPulls(KVStore& kv) {
  const NDArray x = Filled(kv, kShape, 1), wrong = Filled(kv, {3}, 1), moved = MovedFrom(kv);
  ExpectErrors({
      {"Pull null", "key w", [&] { kv.Pull("w", nullptr); }},
      {"Pull into none", "key w", [&] { kv.Pull(kOne, Lists{{NDArray()}}); }},
      {"Pull unlike", "Pull", [&] { kv.Pull(kTwo, Lists{{x}}); }},
      {"PullLatest null", "key w", [&] { kv.PullLatest("w", nullptr); }},
      {"PullLatest nowhere", "key w", [&] { kv.PullLatest(kOne, Lists{{}}); }},
      {"PushPull of none", "key w", [&] { kv.PushPull("w", moved); }},
      {"PushPull into another shape", "key w", [&] { kv.PushPull(kOne, Lists{{x}}, Lists{{wrong}}); }},
      {"PushPull unlike", "PushPull",
       [&] {
         kv.PushPull(kOne, Lists{{x}}, Lists{{x}, {x}});
       }},
      {"Broadcast null", "key n", [&] { kv.Broadcast("n", x, nullptr); }},
      {"Broadcast unlike", "Broadcast", [&] { kv.Broadcast({"n"}, {x}, Lists{}); }},
      {"Broadcast into none", "key n", [&] { kv.Broadcast({"n"}, {x}, Lists{{NDArray()}}); }},
  });
}

void ExpectErrorsOfRows(KVStore& kv) {
  const NDArray x = Filled(kv, kShape, 1), moved = MovedFrom(kv);
  NDArray out = Filled(kv, kShape, 7);
  ExpectErrors({
      {"InitRowSparse of no rows", "key u",
       [&] {
         kv.InitRowSparse("u", {0, 2});
       }},
      {"PushRowSparse of none", "key t", [&] { kv.PushRowSparse("t", RowSparse()); }},
      {"PushRowSparse of no device", "key t", [&] { kv.PushRowSparse("t", std::vector<RowSparse>()); }},
      {"RowSparsePull null", "key t", [&] { kv.RowSparsePull("t", x, nullptr); }},
      {"RowSparsePull of none", "key t", [&] { kv.RowSparsePull("t", moved, &out); }},
      {"SetRowSparse of none", "key t", [&] { kv.SetRowSparse("t", RowSparse()); }},
      {"RowSparseIds of a dense key", "key w", [&] { kv.RowSparseIds("w"); }},
      {"RowSparseIds of a key that is not there", "key u", [&] { kv.RowSparseIds("u"); }},
  });
  EXPECT_EQ(out.ToVector().front(), 7);
}

void ExpectErrorsOfOtherCalls(KVStore& kv) {
  ExpectErrors({
      {"NumUpdates of a key that is not there", "key v", [&] { kv.NumUpdates("v"); }},
      {"Agree on too much", "Agree", [&] { kv.Agree(std::string(65537, 'x')); }},
      {"SetTimeout of none", "SetTimeout", [&] { kv.SetTimeout(std::chrono::milliseconds(0)); }},
      {"SetGradientCompression NaN", "threshold",
       [&] { kv.SetGradientCompression({.type = Compression::k2Bit, .threshold = std::nanf("")}); }},
      {"SetOptimizer NaN", "momentum", [&] { kv.SetOptimizer({.momentum = kNan}); }},
      {"Barrier of none", "Barrier", [&] { kv.Barrier(std::vector<int>()); }},
  });
  if (kv.rank() != 0) return;  // rank 0 alone reads and writes files
  const std::string nul("a\0b", 3);
  ExpectErrors({{"LoadOptimizerStates", "path", [&] { kv.LoadOptimizerStates(""); }},
                {"LoadOptimizerStates NUL", "path", [&] { kv.LoadOptimizerStates(nul); }},
                {"SaveOptimizerStates", "path", [&] { kv.SaveOptimizerStates(""); }},
                {"SaveOptimizerStates NUL", "path", [&] { kv.SaveOptimizerStates(nul); }}});
}

TEST_P(NullArguments, AreRefusedAndNothingHasHappened) {
  Job({.type = GetParam(), .workers = workers()}).Run([&](KVStore& kv) {
    const NDArray x = Filled(kv, kShape, 1);
    NDArray out = Filled(kv, kShape, 7);
    kv.Init("w", Filled(kv, kShape, 0));
    kv.InitRowSparse("t", {4, 2});
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
    ExpectErrorsOfInitPushAndSet(kv);
    ExpectErrorsOfPulls(kv);
    ExpectErrorsOfRows(kv);
    ExpectErrorsOfOtherCalls(kv);
    kv.Push({}, Lists{});  // without keys, a call does nothing
    kv.Pull({}, Lists{});
    kv.Barrier();
    kv.Init("v", x);  // succeeds, because the failed calls did not initialise the key
    kv.Push("w", x);  // is the first round, because the failed calls did not push
    kv.WaitAll();
    kv.Barrier();
    kv.PullLatest("w", &out);
    EXPECT_EQ(out.ToVector().front(), static_cast<float>(workers()));
  });
}

INSTANTIATE_TEST_SUITE_P(Stores, NullArguments, ::testing::ValuesIn(StoreTypes()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sluice::testing
