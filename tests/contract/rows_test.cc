// Row-sparse keys on every type of store (include/sluice/kvstore.h, docs/design/sparse.md). The tests compute
// the expected tables densely, row by row. Distributed stores have two workers, and servers with two shards
// each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"
#include "base/strings.h"
#include "contract/weight_key.h"
#include "golden/optimizer/formulas.h"
#include "sluice/store_type.h"

namespace sluice::testing {
namespace {

using ::testing::Each;

using Ids = std::vector<int64_t>;

NDArray IdsOf(const KVStore& kv, const Ids& ids, int device = 0) {
  return NDArray::From(std::span<const int64_t>(ids), {static_cast<int64_t>(ids.size())},
                       DeviceOf(kv, device));
}

RowSparse RowsOf(const KVStore& kv, const Ids& ids, const std::vector<float>& values, int64_t columns,
                 int device = 0) {
  return {IdsOf(kv, ids, device),
          NDArray::From(std::span<const float>(values), {static_cast<int64_t>(ids.size()), columns},
                        DeviceOf(kv, device))};
}
// Returns rows in which every element is `value`.
RowSparse RowsOf(const KVStore& kv, const Ids& ids, float value, int64_t columns, int device = 0) {
  return RowsOf(kv, ids, std::vector<float>(ids.size() * static_cast<size_t>(columns), value), columns,
                device);
}

std::vector<float> PullRows(KVStore& kv, const Key& key, const Ids& ids, int64_t columns) {
  NDArray rows = Filled(kv, {static_cast<int64_t>(ids.size()), columns}, 77);
  kv.RowSparsePull(key, IdsOf(kv, ids), &rows);
  return rows.ToVector();
}

Ids AllOf(int64_t rows) {
  Ids ids(static_cast<size_t>(rows));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

struct RowSparseOn {
  friend std::ostream& operator<<(std::ostream& out, const RowSparseOn& on) {
    return out << on.type << " on " << on.workers;
  }
  std::string type;
  int workers;
};
class RowSparseKeys : public ::testing::TestWithParam<RowSparseOn> {
 protected:
  static constexpr float kRescale = 2;

  const std::string& type() const { return GetParam().type; }
  int workers() const { return GetParam().workers; }
  bool IsAsync() const { return StoreType::Parse(type()).async; }
  Job MakeJob() const { return Job({.type = type(), .workers = workers(), .server_threads = 2}); }
  // Initialises a table to which pushes are added, multiplied by kRescale.
  static void InitAccumulating(KVStore& kv, const Key& key, const Shape& shape, const RowInit& init = {}) {
    kv.InitRowSparse(key, shape, DType::kFloat32, init);
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate, .rescale_grad = kRescale});
    kv.Barrier();
  }
  // Returns the rows after all workers' pushes.
  static std::vector<float> Settled(KVStore& kv, const Key& key, const Ids& ids, int64_t columns) {
    kv.WaitAll();
    kv.Barrier();
    return PullRows(kv, key, ids, columns);
  }
};
INSTANTIATE_TEST_SUITE_P(Local, RowSparseKeys,
                         ::testing::Values(RowSparseOn{"local", 1}, RowSparseOn{"device", 1}),
                         [](const auto& info) { return info.param.type; });
INSTANTIATE_TEST_SUITE_P(Dist, RowSparseKeys,
                         ::testing::Values(RowSparseOn{"dist_sync", 3}, RowSparseOn{"dist_sync", 7},
                                           RowSparseOn{"dist_device_sync", 3}, RowSparseOn{"dist_async", 3},
                                           RowSparseOn{"dist_async", 7}),
                         [](const auto& info) {
                           return StrCat(info.param.type, "_on_", info.param.workers);
                         });

TEST_P(RowSparseKeys, ARowOfEveryRankArrivesAndNoOther) {
  MakeJob().Run([](KVStore& kv) {
    InitAccumulating(kv, kKey, {1200, 5});
    const int n = kv.num_workers();
    kv.PushRowSparse(kKey, RowsOf(kv, {kv.rank()}, static_cast<float>(kv.rank() + 1), 5));
    const std::vector<float> rows = Settled(kv, kKey, AllOf(1200), 5);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto row = static_cast<int>(i / 5);
      ASSERT_EQ(rows[i], row < n ? kRescale * static_cast<float>(row + 1) : 0) << "row " << row;
    }
  });
}

// A gradient of whole numbers, whose sums are exact in any order.
struct Pushed {
  Ids ids;
  std::vector<float> values;
};
Pushed RandomRows(int worker, int round, int64_t rows, int64_t columns) {
  Rng rng(DeriveSeed(5, worker, round));
  Pushed pushed;
  for (int64_t row = 0; row < rows; ++row)
    if (rng.Chance(0.3)) pushed.ids.push_back(row);
  for (size_t i = pushed.ids.size(); i > 1; --i) std::swap(pushed.ids[i - 1], pushed.ids[rng.Below(i)]);
  for (size_t i = 0; i < pushed.ids.size() / 8; ++i) pushed.ids.push_back(pushed.ids[rng.Below(i + 1)]);
  for (size_t i = 0; i < pushed.ids.size() * static_cast<size_t>(columns); ++i)
    pushed.values.push_back(static_cast<float>(rng.Below(17)) - 8);
  return pushed;
}

TEST_P(RowSparseKeys, IdsMayHaveAnyShapeAndRowsHaveItFirst) {
  MakeJob().Run([](KVStore& kv) {
    InitAccumulating(kv, kKey, {50, 3});
    const Context device = DeviceOf(kv, 0);
    // Worker 0 alone pushes r, r + 0.25, r + 0.5 as row r; the ids have the shape [2, 2].
    const std::vector<int64_t> pushed = {7, 3, 40, 7};
    std::vector<float> gradient;
    for (const int64_t id : {7, 3, 40})
      for (int c = 0; c < 3; ++c)
        gradient.push_back((static_cast<float>(id) + 0.25f * static_cast<float>(c)) / kRescale);
    gradient.insert(gradient.end(), 3, 0);  // the second occurrence of row 7
    if (kv.rank() != 0) std::ranges::fill(gradient, 0.0f);
    kv.PushRowSparse(kKey, RowSparse{NDArray::From(std::span<const int64_t>(pushed), {2, 2}, device),
                                     NDArray::From(std::span<const float>(gradient), {2, 2, 3}, device)});
    kv.WaitAll();
    kv.Barrier();
    const std::vector<int64_t> wanted = {40, 7, 7, 3, 0, 40};
    for (const Shape& shape : {Shape{6}, Shape{2, 3}, Shape{3, 1, 2}, Shape{1, 6, 1}}) {
      std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
      dims.push_back(3);
      NDArray rows = Filled(kv, Shape(std::span<const int64_t>(dims)), 77);
      kv.RowSparsePull(kKey, NDArray::From(std::span<const int64_t>(wanted), shape, device), &rows);
      const std::vector<float> got = rows.ToVector();
      for (size_t i = 0; i < got.size(); ++i) {
        const auto id = static_cast<float>(wanted[i / 3]);
        EXPECT_EQ(got[i], id == 0 ? 0 : id + 0.25f * static_cast<float>(i % 3)) << shape << ", " << i;
      }
    }
    // Ids without axes name one row.
    NDArray row = Filled(kv, {3}, 77);
    const std::vector<int64_t> one = {40};
    kv.RowSparsePull(kKey, NDArray::From(std::span<const int64_t>(one), {}, device), &row);
    EXPECT_EQ(row.ToVector(), (std::vector<float>{40, 40.25f, 40.5f}));
    NDArray flat = Filled(kv, {6, 3}, 77);
    ExpectError(ErrorCode::kInvalidArgument, {"rows are float32 [6, 3] for 6 ids", "float32 [2, 3, 3]"}, [&] {
      kv.RowSparsePull(kKey, NDArray::From(std::span<const int64_t>(wanted), {2, 3}, device), &flat);
    });
    kv.Barrier();
  });
}

// Updaters get the pushed rows as dense arrays; in MXNet they get a row-sparse gradient.
TEST_P(RowSparseKeys, AnUpdaterOfOnesOwnUpdatesTheRowsThatWerePushed) {
  if (workers() > 1) GTEST_SKIP() << "dist stores have server programs";
  MakeJob().Run([](KVStore& kv) {
    kv.InitRowSparse(kKey, {20, 2}, DType::kFloat32, {});
    kv.SetRowSparse(kKey, RowsOf(kv, {3, 4, 5}, 10, 2));
    std::vector<std::vector<float>> gradients;
    kv.SetUpdater([&](const Key& key, const NDArray& gradient, NDArray& weight) {
      EXPECT_EQ(key, kKey);
      EXPECT_EQ(gradient.shape(), weight.shape());
      gradients.push_back(gradient.ToVector());
      weight -= gradient * 0.5f;
    });
    kv.PushRowSparse(kKey,
                     std::vector<RowSparse>{RowsOf(kv, {9, 4}, {1, 2, 3, 4}, 2), RowsOf(kv, {4}, 8, 2)});
    kv.PushRowSparse(kKey, RowsOf(kv, {}, std::vector<float>(), 2));          // does not call the updater
    EXPECT_EQ(gradients, (std::vector<std::vector<float>>{{11, 12, 1, 2}}));  // row 4, then row 9
    EXPECT_EQ(PullRows(kv, kKey, {3, 4, 5, 9, 0}, 2),
              (std::vector<float>{10, 10, 4.5f, 4, 10, 10, -0.5f, -1, 0, 0}));
    EXPECT_EQ(kv.RowSparseIds(kKey).ToVector<int64_t>(), (Ids{3, 4, 5, 9}));
    kv.SetUpdater([](const Key&, const NDArray&, NDArray&) { throw std::runtime_error("boom"); });
    ExpectError(ErrorCode::kFailedPrecondition, {"push of key weight: the updater failed: boom"},
                [&] { kv.PushRowSparse(kKey, RowsOf(kv, {4}, 1, 2)); });
    EXPECT_EQ(PullRows(kv, kKey, {4}, 2), (std::vector<float>{4.5f, 4}));
  });
}

TEST_P(RowSparseKeys, RandomRowsAtADensityOfThreeTenths) {
  constexpr int64_t kRows = 1200, kColumns = 7;
  constexpr int kRounds = 5;
  std::vector<float> expected(kRows * kColumns);
  for (int worker = 0; worker < workers(); ++worker) {
    for (int round = 0; round < kRounds; ++round) {
      const Pushed pushed = RandomRows(worker, round, kRows, kColumns);
      for (size_t i = 0; i < pushed.values.size(); ++i)
        expected[static_cast<size_t>(pushed.ids[i / kColumns]) * kColumns + i % kColumns] +=
            kRescale * pushed.values[i];
    }
  }
  MakeJob().Run([&](KVStore& kv) {
    InitAccumulating(kv, kKey, {kRows, kColumns});
    for (int round = 0; round < kRounds; ++round) {
      const Pushed pushed = RandomRows(kv.rank(), round, kRows, kColumns);
      kv.PushRowSparse(kKey, RowsOf(kv, pushed.ids, pushed.values, kColumns));
    }
    EXPECT_EQ(Settled(kv, kKey, AllOf(kRows), kColumns), expected);
  });
}

TEST_P(RowSparseKeys, EmptyAndZeroPushesChangeNothingAndStillCount) {
  MakeJob().Run([&](KVStore& kv) {
    InitAccumulating(kv, kKey, {40, 3}, RowInit::Constant(2));
    kv.PushRowSparse(kKey, RowsOf(kv, {}, 0, 3));
    kv.PushRowSparse(kKey, RowsOf(kv, AllOf(40), 0, 3));
    // In this round only worker 0 has rows.
    kv.PushRowSparse(kKey, kv.rank() == 0 ? RowsOf(kv, {7}, 1, 3) : RowsOf(kv, {}, 0, 3));
    const std::vector<float> rows = Settled(kv, kKey, AllOf(40), 3);
    for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i], i / 3 == 7 ? 2 + kRescale : 2) << i;
    EXPECT_TRUE(PullRows(kv, kKey, {}, 3).empty());
  });
}

TEST_P(RowSparseKeys, RepeatsAndDevicesAddUpAndPullsMayRepeatToo) {
  MakeJob().Run([](KVStore& kv) {
    InitAccumulating(kv, kKey, {10, 2});
    const float n = kRescale * static_cast<float>(kv.num_workers());
    kv.PushRowSparse(
        kKey, {RowsOf(kv, {4, 9, 4}, {1, 2, 3, 4, 5, 6}, 2), RowsOf(kv, {9, 0}, {10, 20, 30, 40}, 2, 1)});
    EXPECT_EQ(Settled(kv, kKey, {9, 4, 9, 0, 1}, 2),
              (std::vector<float>{13 * n, 24 * n, 6 * n, 8 * n, 13 * n, 24 * n, 30 * n, 40 * n, 0, 0}));
    // One pull into the arrays of two devices; one of them has 32-bit ids.
    const std::vector<int32_t> ids = {0, 4};
    const NDArray some = NDArray::From(std::span<const int32_t>(ids), {2}, DeviceOf(kv, 1));
    const NDArray here = Filled(kv, {1, 2}, 77), there = Filled(kv, {2, 2}, 77, 1);
    kv.RowSparsePull(kKey, {{IdsOf(kv, {9}), here}, {some, there}});
    EXPECT_EQ(here.ToVector(), (std::vector<float>{13 * n, 24 * n}));
    EXPECT_EQ(there.ToVector(), (std::vector<float>{30 * n, 40 * n, 6 * n, 8 * n}));
  });
}

TEST_P(RowSparseKeys, RowsBeginAsTheirInitSaysWhereverTheyAreTouched) {
  std::vector<std::vector<float>> seen(2);
  for (const int servers : {1, 2}) {
    Job job({.type = type(), .workers = workers(), .servers = servers});
    job.Run([&](KVStore& kv) {
      InitAccumulating(kv, kKey, {1000, 16}, RowInit::Normal(1, 0.5, 3));
      const std::vector<float> untouched = PullRows(kv, kKey, AllOf(1000), 16);
      kv.PushRowSparse(kKey, RowsOf(kv, AllOf(500), 0, 16));
      EXPECT_EQ(Settled(kv, kKey, AllOf(1000), 16), untouched);
      if (kv.rank() == 0) seen[static_cast<size_t>(servers - 1)] = untouched;
    });
  }
  EXPECT_EQ(seen[0], seen[1]);
  double sum = 0, squares = 0;
  for (const float x : seen[0]) {
    sum += x - 1;
    squares += (x - 1) * (x - 1);
  }
  EXPECT_NEAR(sum / 16000, 0, 0.02);
  EXPECT_NEAR(squares / 16000, 0.25, 0.01);
}

// Rows that a step does not name keep weight and momentum. The number of updates is counted per key.
TEST_P(RowSparseKeys, OptimisersAreLazy) {
  if (IsAsync()) GTEST_SKIP() << "every worker's push is an update of its own";
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kAdaGrad}) {
    OptimizerConfig config{.kind = kind, .learning_rate = 0.1};
    config.wd = 0.01;
    if (kind == OptimizerKind::kSgd) config.momentum = 0.9;
    constexpr int kSteps = 20;
    const auto ids_of = [](int worker, int step) {
      Ids ids;
      for (int64_t row = 0; row < 6; ++row)
        if (MixBits(static_cast<uint64_t>(row + 10 * step + 1000 * worker)) % 3 == 0) ids.push_back(row);
      return ids;
    };
    const auto gradient = [](int worker, int step, int64_t row) {
      return 0.1 * static_cast<double>(row + 1) + 0.01 * step - 0.3 * worker;
    };
    std::vector<reference::Element> expected(6, {.weight = 0.5});
    for (int step = 1; step <= kSteps; ++step) {
      std::map<int64_t, double> sums;
      for (int worker = 0; worker < workers(); ++worker)
        for (const int64_t row : ids_of(worker, step))
          sums[row] += static_cast<float>(gradient(worker, step, row));
      for (const auto& [row, sum] : sums) {
        std::vector<double> one{sum};
        reference::UpdateArray(config, {.rate = config.learning_rate, .t = step}, one,
                               std::span(expected).subspan(static_cast<size_t>(row), 1));
      }
    }
    MakeJob().Run([&](KVStore& kv) {
      kv.InitRowSparse(kKey, {6, 1}, DType::kFloat32, RowInit::Constant(0.5));
      kv.SetOptimizer(config);
      kv.Barrier();
      for (int step = 1; step <= kSteps; ++step) {
        std::vector<float> values;
        for (const int64_t row : ids_of(kv.rank(), step))
          values.push_back(static_cast<float>(gradient(kv.rank(), step, row)));
        kv.PushRowSparse(kKey, RowsOf(kv, ids_of(kv.rank(), step), values, 1));
      }
      const std::vector<float> rows = PullRows(kv, kKey, AllOf(6), 1);
      for (size_t i = 0; i < rows.size(); ++i)
        EXPECT_NEAR(rows[i], expected[i].weight, 2e-6 * std::max(1.0, std::abs(expected[i].weight)))
            << Name(kind) << ", row " << i;
    });
  }
}

TEST_P(RowSparseKeys, SixteenBitRowsAreSummedInFloat) {
  MakeJob().Run([](KVStore& kv) {
    kv.InitRowSparse(kKey, {4, 3}, DType::kBFloat16, RowInit::Constant(256));
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
    // At 256 a bfloat16 has steps of 2: adding 1 twice changes nothing, adding the sum does.
    const NDArray ones = Filled(kv, {2, 3}, 1, 0, DType::kBFloat16);
    kv.PushRowSparse(kKey, {{IdsOf(kv, {2, 2}), ones}});
    kv.WaitAll();
    kv.Barrier();
    NDArray rows = NDArray::Empty({1, 3}, DeviceOf(kv), DType::kBFloat16);
    kv.RowSparsePull(kKey, IdsOf(kv, {2}), &rows);
    EXPECT_THAT(rows.AsType(DType::kFloat32).ToVector(),
                Each(256 + 2 * static_cast<float>(kv.num_workers())));
  });
}

TEST_P(RowSparseKeys, WholeNumbersAreCounted) {
  MakeJob().Run([](KVStore& kv) {
    kv.InitRowSparse(kKey, {30, 1}, DType::kInt64, RowInit::Constant(-1));
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
    NDArray ones = Filled(kv, {3, 1}, 1, 0, DType::kInt64),
            counts = NDArray::Empty({2, 1}, DeviceOf(kv), DType::kInt64);
    kv.PushRowSparse(kKey, {{IdsOf(kv, {5, 29, 5}), ones}});
    kv.WaitAll();
    kv.Barrier();
    kv.RowSparsePull(kKey, IdsOf(kv, {29, 5}), &counts);
    const int64_t n = kv.num_workers();
    EXPECT_EQ(counts.ToVector<int64_t>(), (std::vector<int64_t>{n - 1, 2 * n - 1}));
  });
}

TEST_P(RowSparseKeys, AnswersToMistakesSayWhatIsWrong) {
  MakeJob().Run([](KVStore& kv) {
    InitAccumulating(kv, kKey, {10, 2});
    kv.Init(Key("dense"), Filled(kv, {10, 2}, 0));
    const auto expect = [](const std::vector<std::string>& texts, const std::function<void()>& call) {
      ExpectError(ErrorCode::kInvalidArgument, texts, call);
    };
    NDArray two = Filled(kv, {2, 2}, 0), three = Filled(kv, {2, 3}, 0);
    expect({"PushRowSparse of key weight", "id 1 is row 10", "rows 0 to 9"}, [&] {
      kv.PushRowSparse(kKey, RowsOf(kv, {3, 10}, 1, 2));
    });
    expect({"id 0 is row -1"}, [&] { kv.RowSparsePull(kKey, IdsOf(kv, {-1, 3}), &two); });
    expect({"[2, 3]", "[2, 2]"}, [&] { kv.RowSparsePull(kKey, IdsOf(kv, {1, 3}), &three); });
    expect({"ids are float32 [2, 2]"}, [&] { kv.RowSparsePull(kKey, two, &two); });
    expect({"row-sparse"}, [&] { kv.Pull(kKey, &two); });
    expect({"row-sparse"}, [&] { kv.Push(kKey, two); });
    expect({"not row-sparse"}, [&] { kv.PushRowSparse(Key("dense"), RowsOf(kv, {1}, 1, 2)); });
    expect({"row-sparse", "no row"}, [&] { kv.InitRowSparse(Key("none"), {0, 4}); });
    expect({"width of -1"}, [&] {
      kv.InitRowSparse(Key("none"), {4, 4}, DType::kFloat32, {.fill = RowFill::kNormal, .width = -1});
    });
    expect({"row-sparse", "lamb"}, [&] {
      if (kv.rank() != 0) throw Error(ErrorCode::kInvalidArgument, "row-sparse lamb: rank 0's call counts");
      kv.SetOptimizer({.kind = OptimizerKind::kLamb});
    });
    ExpectError(ErrorCode::kFailedPrecondition, {"no-such"},
                [&] { kv.PushRowSparse(Key("no-such"), RowsOf(kv, {1}, 1, 2)); });
    // None of the failed calls had an effect.
    kv.PushRowSparse(kKey, RowsOf(kv, {9}, 1, 2));
    const float n = kRescale * static_cast<float>(kv.num_workers());
    EXPECT_EQ(Settled(kv, kKey, {9, 3}, 2), (std::vector<float>{n, n, 0, 0}));
  });
}

class DistRows : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Workers, DistRows, ::testing::Values(3, 7),
                         [](const auto& info) { return StrCat("dist_sync_on_", info.param); });

// Without an optimiser the sum is assigned to the pushed rows; other rows stay as they are.
TEST_P(DistRows, ASumIsAssignedToItsRows) {
  const int workers = GetParam();
  Job({.type = "dist_sync", .workers = workers}).Run([&](KVStore& kv) {
    kv.InitRowSparse(kKey, {50, 2}, DType::kFloat32, RowInit::Constant(5));
    kv.PushRowSparse(kKey, RowsOf(kv, {1, kv.rank() + 10}, 1, 2));
    const std::vector<float> rows = PullRows(kv, kKey, {1, 10 + kv.rank(), 2}, 2);
    const auto n = static_cast<float>(workers);
    EXPECT_EQ(rows, (std::vector<float>{n, n, 1, 1, 5, 5}));
  });
}

// A pull after a push returns all workers' pushes of this round, and none of the next round.
TEST_P(DistRows, PullsSeeTheirRoundAndNoLaterOne) {
  const int workers = GetParam();
  Job({.type = "dist_sync", .workers = workers}).Run([&](KVStore& kv) {
    kv.InitRowSparse(kKey, {100, 2});
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
    std::vector<NDArray> pulled;
    for (int round = 0; round < 20; ++round) {
      kv.PushRowSparse(kKey, RowsOf(kv, {round, 50}, 1, 2));
      // Several pulls of different rows are in flight together.
      for (const Ids& ids : {Ids{50, round}, Ids{99, 50}}) {
        pulled.push_back(Filled(kv, {2, 2}, 77));
        kv.RowSparsePull(kKey, IdsOf(kv, ids), &pulled.back());
      }
    }
    const auto n = static_cast<float>(workers);
    for (size_t round = 0; round < 20; ++round) {
      const float sum = n * static_cast<float>(round + 1);
      EXPECT_EQ(pulled[2 * round].ToVector(), (std::vector<float>{sum, sum, n, n})) << round;
      EXPECT_EQ(pulled[2 * round + 1].ToVector(), (std::vector<float>{0, 0, sum, sum})) << round;
    }
  });
}

TEST(DeclaringRows, WhoDeclaresAnotherTableHearsBoth) {
  Job({.type = "dist_sync", .workers = 2}).Run([](KVStore& kv) {
    if (kv.rank() == 0) kv.InitRowSparse(kKey, {10, 2}, DType::kFloat32, RowInit::Uniform(-1, 1, 4));
    kv.Barrier();
    if (kv.rank() == 0) return;
    ExpectError(ErrorCode::kAlreadyExists, {"float32 [10, 2]", "row-sparse float32 [10, 2]", "seed 4"}, [&] {
      kv.Init(kKey, Filled(kv, {10, 2}, 0));
    });
    ExpectError(ErrorCode::kAlreadyExists, {"seed 4", "seed 5"}, [&] {
      kv.InitRowSparse(kKey, {10, 2}, DType::kFloat32, RowInit::Uniform(-1, 1, 5));
    });
  });
}

}  // namespace
}  // namespace sluice::testing
