// Values several times as large as what a server queues for a worker. They must all arrive without a resend:
// Job's resend timeout is longer than any test.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <numeric>

#include "base/strings.h"
#include "contract/weight_key.h"

namespace sluice::testing {
namespace {

const Shape kLarge = {6 << 20};  // 24 MiB of float32, on one shard

class Pressure : public ::testing::TestWithParam<const char*> {
 protected:
  JobOptions Options(int workers) const {
    return {.type = GetParam(),
            .workers = workers,
            .servers = 1,
            .room_bytes = 1 << 20,
            .max_queued_bytes = 7 << 20,
            .operation_timeout = 30s};
  }
};
INSTANTIATE_TEST_SUITE_P(Stores, Pressure, ::testing::Values("dist_sync", "dist_async"),
                         [](const auto& info) { return info.param; });

void ExpectAll(const NDArray& array, float expected) {
  const std::vector<float> values = array.ToVector();
  EXPECT_EQ(std::ranges::count(values, expected), std::ssize(values))
      << values.front() << " ... " << values.back();
}

TEST_P(Pressure, SeveralWorkersPullALargeKeyAtOnce) {
  Job(Options(3)).Run([](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kLarge, 5));
    NDArray out = Filled(kv, kLarge, 0), latest = Filled(kv, kLarge, 0);
    kv.Pull(kKey, &out);
    kv.PullLatest({kKey}, {{latest}});
    ExpectAll(out, 5);
    ExpectAll(latest, 5);
    kv.Barrier();
  });
}

TEST_P(Pressure, RoundsAndStatesOfALargeKey) {
  const std::string file =
      (std::filesystem::temp_directory_path() / StrCat("sluice-pressure-", getpid(), ".states")).string();
  const bool sync = std::string_view(GetParam()) == "dist_sync";
  Job(Options(2)).Run([&](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kLarge, 1));
    kv.SetOptimizer({.kind = OptimizerKind::kSgd, .learning_rate = 1, .momentum = 0.5, .rescale_grad = -1});
    NDArray out = Filled(kv, kLarge, 0);
    for (int round = 0; round < 2; ++round) kv.PushPull(kKey, Filled(kv, kLarge, 1), &out);
    out.WaitToRead();
    kv.Barrier();
    kv.PullLatest({kKey}, {{out}});
    // Sync: two steps of 2, plus half of the first one again. Async: four steps of 1.
    ExpectAll(out, sync ? 1 + 2 + 3 : 1 + 1 + 1.5f + 1.75f + 1.875f);
    kv.SaveOptimizerStates(file);
    kv.LoadOptimizerStates(file);
    kv.Barrier();
    NDArray none = Filled(kv, kLarge, 0);
    kv.PushPull(kKey, none, &out);  // only the momentum moves the weight
    out.WaitToRead();
    kv.Barrier();
    kv.PullLatest({kKey}, {{out}});
    ExpectAll(out, sync ? 6 + 1.5f : 7.125f + 0.9375f + 0.46875f);
  });
  std::remove(file.c_str());
}

TEST_P(Pressure, ManyRowsAtOnce) {
  constexpr int64_t kRows = 12 << 10, kWidth = 512;
  Job(Options(2)).Run([&](KVStore& kv) {
    kv.InitRowSparse(kKey, {kRows, kWidth}, DType::kFloat32, RowInit::Constant(3));
    std::vector<int64_t> ids(kRows);
    std::iota(ids.begin(), ids.end(), 0);
    const RowSparse out{NDArray::From(std::span<const int64_t>(ids), {kRows}, DeviceOf(kv)),
                        Filled(kv, {kRows, kWidth}, 0)};
    kv.RowSparsePull(kKey, {out}, 0);
    ExpectAll(out.rows, 3);
  });
}

}  // namespace
}  // namespace sluice::testing
