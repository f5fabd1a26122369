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

TEST_P(NullArguments, AreRefusedAndNothingHasHappened) {
  Job({.type = GetParam(), .workers = workers()}).Run([&](KVStore& kv) {
    using Lists = std::vector<KVStore::Values>;
    const NDArray x = Filled(kv, kShape, 1), wrong = Filled(kv, {3}, 1);
    NDArray moved = Filled(kv, kShape, 1);
    const NDArray taken = std::move(moved);
    NDArray out = Filled(kv, kShape, 7);
    const std::vector<Key> w = {"w"}, two = {"w", "v"};
    const double nan = std::nan("");
    const std::string nul("a\0b", 3);
    kv.Init("w", Filled(kv, kShape, 0));
    kv.InitRowSparse("t", {4, 2});
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
    ExpectErrors({
        {"Init of none", "key v", [&] { kv.Init("v", NDArray()); }},
        {"Init of what was moved from", "key v", [&] { kv.Init("v", moved); }},
        {"Init unlike", "Init", [&] { kv.Init(two, std::vector{x}); }},
        {"Push of none", "key w", [&] { kv.Push("w", NDArray()); }},
        {"Push of what was moved from", "key w", [&] { kv.Push("w", moved); }},
        {"Push of no device", "key w", [&] { kv.Push(w, Lists{{}}); }},
        {"Push unlike", "Push", [&] { kv.Push(two, Lists{{x}}); }},
        {"Push NaN", "divisor", [&] { kv.Push("w", x, {.divisor = nan}); }},
        {"Push of a key that is not there", "key v",
         [&] {
           kv.Push(two, Lists{{x}, {x}});
         }},
        {"Pull null", "key w", [&] { kv.Pull("w", nullptr); }},
        {"Pull into none", "key w", [&] { kv.Pull(w, Lists{{NDArray()}}); }},
        {"Pull unlike", "Pull", [&] { kv.Pull(two, Lists{{x}}); }},
        {"PullLatest null", "key w", [&] { kv.PullLatest("w", nullptr); }},
        {"PullLatest nowhere", "key w", [&] { kv.PullLatest(w, Lists{{}}); }},
        {"PushPull of none", "key w", [&] { kv.PushPull("w", moved); }},
        {"PushPull into another shape", "key w", [&] { kv.PushPull(w, Lists{{x}}, Lists{{wrong}}); }},
        {"PushPull unlike", "PushPull",
         [&] {
           kv.PushPull(w, Lists{{x}}, Lists{{x}, {x}});
         }},
        {"Broadcast null", "key n", [&] { kv.Broadcast("n", x, nullptr); }},
        {"Broadcast unlike", "Broadcast", [&] { kv.Broadcast({"n"}, {x}, Lists{}); }},
        {"Broadcast into none", "key n", [&] { kv.Broadcast({"n"}, {x}, Lists{{NDArray()}}); }},
        {"InitRowSparse of no rows", "key u",
         [&] {
           kv.InitRowSparse("u", {0, 2});
         }},
        {"PushRowSparse of none", "key t", [&] { kv.PushRowSparse("t", RowSparse()); }},
        {"PushRowSparse of no device", "key t", [&] { kv.PushRowSparse("t", std::vector<RowSparse>()); }},
        {"RowSparsePull null", "key t", [&] { kv.RowSparsePull("t", x, nullptr); }},
        {"RowSparsePull of none", "key t", [&] { kv.RowSparsePull("t", moved, &out); }},
        {"Set of none", "key w", [&] { kv.Set("w", NDArray()); }},
        {"Set of what was moved from", "key w", [&] { kv.Set("w", moved); }},
        {"Set unlike", "Set", [&] { kv.Set(two, std::vector{x}); }},
        {"Set of a key that is not there", "key v", [&] { kv.Set("v", x); }},
        {"SetRowSparse of none", "key t", [&] { kv.SetRowSparse("t", RowSparse()); }},
        {"RowSparseIds of a dense key", "key w", [&] { kv.RowSparseIds("w"); }},
        {"RowSparseIds of a key that is not there", "key u", [&] { kv.RowSparseIds("u"); }},
        {"NumUpdates of a key that is not there", "key v", [&] { kv.NumUpdates("v"); }},
        {"Agree on too much", "Agree", [&] { kv.Agree(std::string(65537, 'x')); }},
        {"SetTimeout of none", "SetTimeout", [&] { kv.SetTimeout(std::chrono::milliseconds(0)); }},
        {"SetGradientCompression NaN", "threshold",
         [&] { kv.SetGradientCompression({.type = Compression::k2Bit, .threshold = nan}); }},
        {"SetOptimizer NaN", "momentum", [&] { kv.SetOptimizer({.momentum = nan}); }},
        {"Barrier of none", "Barrier", [&] { kv.Barrier(std::vector<int>()); }},
    });
    if (kv.rank() == 0) {  // which alone reads and writes files
      ExpectErrors({{"LoadOptimizerStates", "path", [&] { kv.LoadOptimizerStates(""); }},
                    {"LoadOptimizerStates NUL", "path", [&] { kv.LoadOptimizerStates(nul); }},
                    {"SaveOptimizerStates", "path", [&] { kv.SaveOptimizerStates(""); }},
                    {"SaveOptimizerStates NUL", "path", [&] { kv.SaveOptimizerStates(nul); }}});
    }
    EXPECT_EQ(out.ToVector().front(), 7);
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
