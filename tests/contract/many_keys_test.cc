// More keys in one call than one message to the scheduler holds.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "contract/weight_key.h"

namespace sluice::testing {
namespace {

constexpr int64_t kKeys = 17'000;

class ManyKeys : public ::testing::TestWithParam<std::string> {
 protected:
  int workers() const { return GetParam().starts_with("dist") ? 2 : 1; }
  static std::vector<Key> Names(const std::string& prefix) {
    std::vector<Key> keys;
    for (int64_t i = 0; i < kKeys; ++i) keys.emplace_back(StrCat(prefix, ".", i, ".weight"));
    return keys;
  }
  static std::vector<NDArray> Numbered(const KVStore& kv) {
    std::vector<NDArray> arrays;
    for (int64_t i = 0; i < kKeys; ++i) arrays.push_back(Filled(kv, {1}, static_cast<double>(i)));
    return arrays;
  }
  static std::vector<KVStore::Values> Lists(const std::vector<NDArray>& arrays) {
    std::vector<KVStore::Values> lists;
    for (const NDArray& array : arrays) lists.push_back({array});
    return lists;
  }
};

TEST_P(ManyKeys, GoThroughEveryCallAtOnce) {
  Job({.type = GetParam(), .workers = workers()}).Run([&](KVStore& kv) {
    const std::vector<Key> keys = Names("layer");
    const std::vector<NDArray> values = Numbered(kv);
    std::vector<NDArray> outs(values.size());
    for (NDArray& out : outs) out = Filled(kv, {1}, -1);
    const auto expect = [&](double more) {
      for (size_t i = 0; i < outs.size(); ++i)
        ASSERT_EQ(outs[i].ToScalar(), static_cast<double>(i) + more) << i;
    };
    kv.Init(keys, values);
    kv.Pull(keys, Lists(outs));
    expect(0);
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
    const std::vector<NDArray> ones(values.size(), Filled(kv, {1}, 1));
    kv.Push(keys, Lists(ones));
    kv.WaitAll();
    kv.Barrier();
    kv.PullLatest(keys, Lists(outs));
    expect(workers());
    kv.Barrier();
    kv.PushPull(keys, Lists(ones), Lists(outs));
    kv.WaitAll();
    kv.Barrier();
    kv.PullLatest(keys, Lists(outs));
    expect(2 * workers());
  });
}

TEST_P(ManyKeys, AreAllTakenOrNone) {
  if (workers() == 1) return;  // one process sends no messages
  Job({.type = GetParam(), .workers = workers()}).Run([&](KVStore& kv) {
    if (kv.rank() == 0) kv.Init(Key("taken"), Filled(kv, {7}, 0));
    kv.Barrier();
    if (kv.rank() == 1) {
      std::vector<Key> keys = Names("layer");
      keys.back() = Key("taken");
      const std::string why = ErrorOf(ErrorCode::kAlreadyExists, [&] { kv.Init(keys, Numbered(kv)); });
      EXPECT_NE(why.find("taken"), std::string::npos) << why;
    }
    kv.Barrier();
    if (kv.rank() == 0) kv.Init(Names("layer").front(), Filled(kv, {9}, 0));  // else it would be of shape [1]
  });
}

INSTANTIATE_TEST_SUITE_P(Stores, ManyKeys, ::testing::Values("local", "device", "dist_sync", "dist_async"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sluice::testing
