// Calls with more keys than one message to the scheduler can hold. All keys of a call are initialised, or
// none. The tests run on stores of one process and, with two workers, on distributed ones.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/strings.h"
#include "contract/weight_key.h"
#include "sluice/store_type.h"

namespace sluice::testing {
namespace {

constexpr int64_t kKeys = 17'000;

class ManyKeys : public ::testing::TestWithParam<std::string> {
 protected:
  int workers() const { return StoreType::Parse(GetParam()).distributed ? 2 : 1; }
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
  static size_t ElementsOf(int i) { return i % 100 == 7 ? 300'000 : 2; }
  // In async stores each push is an update of its own, so only rank 0 pushes there: otherwise the
  // result would depend on the order.
  static bool Pushes(const KVStore& kv) { return kv.rank() == 0 || kv.type() == "dist_sync"; }
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
    // This throws if the refused call above had initialised the key, with shape [1].
    if (kv.rank() == 0) kv.Init(Names("layer").front(), Filled(kv, {9}, 0));
  });
}

// There are more keys than the states of which are requested together; some are large, and one is a table.
TEST_P(ManyKeys, StatesOfAllAreSavedAndLoaded) {
  constexpr int kSome = 700;
  const std::string path =
      (std::filesystem::temp_directory_path() / StrCat("many-states-of-", getpid(), ".safetensors")).string();
  const auto prepare = [](KVStore& kv, std::vector<Key>* keys, std::vector<NDArray>* values) {
    for (int i = 0; i < kSome; ++i) {
      keys->emplace_back(StrCat("layer.", i));
      values->push_back(Filled(kv, {ElementsOf(i)}, 0));
    }
    kv.Init(*keys, *values);
    kv.InitRowSparse("layer.350.table", {10, 2});
    kv.SetOptimizer({.learning_rate = 0.5, .momentum = 0.5});
    kv.Barrier();
  };
  const auto rows = [](KVStore& kv, double value) {
    return RowSparse{NDArray::From(std::vector<int64_t>{3}, {1}, DeviceOf(kv)), Filled(kv, {1, 2}, value)};
  };
  Job({.type = GetParam(), .workers = workers()}).Run([&](KVStore& kv) {
    std::vector<Key> keys;
    std::vector<NDArray> values;
    prepare(kv, &keys, &values);
    if (kv.rank() == 0) {
      for (int i = 0; i < kSome; ++i) values[static_cast<size_t>(i)].Fill(i);
    }
    if (Pushes(kv)) {  // rank 0's gradients are the numbers of the keys, those of other ranks are 0
      kv.Push(keys, values);
      kv.PushRowSparse("layer.350.table", rows(kv, kv.rank() == 0 ? 1000 : 0));
    }
    kv.WaitAll();
    kv.Barrier();
    kv.SaveOptimizerStates(path);
  });
  // The saved velocity is v = -0.5 g. A gradient of 0 makes it 0.5 v, which is added to a weight of 0.
  Job({.type = GetParam(), .workers = workers()}).Run([&](KVStore& kv) {
    std::vector<Key> keys;
    std::vector<NDArray> values;
    prepare(kv, &keys, &values);
    kv.LoadOptimizerStates(path);
    kv.Barrier();
    if (Pushes(kv)) {
      kv.PushPull(keys, values);
      kv.PushRowSparse("layer.350.table", rows(kv, 0));
      NDArray row = Filled(kv, {1, 2}, -1);
      kv.RowSparsePull("layer.350.table", rows(kv, 0).ids, row);
      for (int i = 0; i < kSome; ++i)
        ASSERT_EQ(values[static_cast<size_t>(i)].ToVector(), std::vector(ElementsOf(i), i * -0.25f)) << i;
      EXPECT_EQ(row.ToVector(), std::vector(2, -250.f));
    }
  });
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(Stores, ManyKeys, ::testing::Values("local", "device", "dist_sync", "dist_async"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sluice::testing
