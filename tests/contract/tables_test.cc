// Row-sparse tables that are saved and continued in another job: the ids of their rows (RowSparseIds), the
// optimiser states of their rows in files, and rows that are set (SetRowSparse).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>

#include "base/rng.h"
#include "base/strings.h"
#include "contract/weight_key.h"
#include "data/safetensors/safetensors.h"
#include "golden/optimizer/formulas.h"

namespace sluice::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::IsEmpty;

using Ids = std::vector<int64_t>;
const std::string kTypes[] = {"local", "device", "dist_sync", "dist_async"};

RowSparse RowsOf(const KVStore& kv, const Ids& ids, const std::vector<float>& values, int64_t columns) {
  const auto n = static_cast<int64_t>(ids.size());
  return {NDArray::From(std::span<const int64_t>(ids), {n}, DeviceOf(kv)),
          NDArray::From(std::span<const float>(values), {n, columns}, DeviceOf(kv))};
}
Ids AllOf(int64_t rows, int64_t step = 1) {
  Ids ids;
  for (int64_t row = 0; row < rows; row += step) ids.push_back(row);
  return ids;
}

class Tables : public ::testing::TestWithParam<std::string> {
 protected:
  ~Tables() override { std::filesystem::remove(path_); }
  Job MakeJob(int servers = 2) const {
    const bool two = GetParam() == "dist_sync";
    return Job({.type = GetParam(), .workers = two ? 2 : 1, .servers = servers});
  }
  const std::string path_ =
      (std::filesystem::temp_directory_path() / StrCat("tables-", getpid(), ".safetensors")).string();
};
INSTANTIATE_TEST_SUITE_P(Stores, Tables, ::testing::ValuesIn(kTypes),
                         [](const auto& info) { return info.param; });

TEST_P(Tables, TheRowsThatWerePushedOrSetAreListed) {
  MakeJob().Run([](KVStore& kv) {
    kv.InitRowSparse(kKey, {1000, 2});
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
    EXPECT_THAT(kv.RowSparseIds(kKey).ToVector<int64_t>(), IsEmpty());
    kv.Barrier();  // SetRowSparse does not wait for the other workers' pushes
    kv.PushRowSparse(kKey, RowsOf(kv, {900 + kv.rank(), 3}, {1, 1, 1, 1}, 2));
    NDArray rows = Filled(kv, {1, 2}, 0);
    kv.RowSparsePull(kKey, NDArray::From(std::span<const int64_t>(Ids{77}), {1}), &rows);
    kv.SetRowSparse(kKey, RowsOf(kv, {500, 4}, {5, 6, 7, 8}, 2));
    kv.Barrier();
    Ids expected = {3, 4, 500, 900};
    if (kv.num_workers() == 2) expected.push_back(901);
    EXPECT_EQ(kv.RowSparseIds(kKey).ToVector<int64_t>(), expected);
    rows = Filled(kv, {3, 2}, 0);
    kv.RowSparsePull(kKey, NDArray::From(std::span<const int64_t>(Ids{4, 900, 500}), {3}), &rows);
    EXPECT_THAT(rows.ToVector(), ElementsAre(7, 8, 1, 1, 5, 6));
    ExpectError(ErrorCode::kInvalidArgument, {"row 4 comes 2 times"}, [&] {
      kv.SetRowSparse(kKey, RowsOf(kv, {4, 4}, {1, 1, 1, 1}, 2));
    });
    ExpectError(ErrorCode::kInvalidArgument, {"row 1000"}, [&] {
      kv.SetRowSparse(kKey, RowsOf(kv, {1000}, {1, 1}, 2));
    });
    kv.Init(Key("dense"), rows);
    ExpectError(ErrorCode::kInvalidArgument, {"RowSparseIds of key dense", "not row-sparse"},
                [&] { kv.RowSparseIds(Key("dense")); });
  });
}

// The states alone say what the next weight of ftrl is.
TEST_P(Tables, FtrlGoesOnFromRowsThatAreSet) {
  MakeJob().Run([](KVStore& kv) {
    const OptimizerConfig ftrl{
        .kind = OptimizerKind::kFtrl, .learning_rate = 0.5, .wd = 0.125, .lambda1 = 0.25};
    kv.InitRowSparse(kKey, {10, 2}, DType::kFloat32, RowInit::Constant(3));
    kv.SetOptimizer(ftrl);
    kv.Barrier();
    reference::Element expected{.weight = 3};
    for (const float value : {7.0f, -2.0f, 0.0f}) {
      for (int pushes = 0; pushes < 2; ++pushes) {
        kv.PushRowSparse(kKey, RowsOf(kv, {4}, {1, 1}, 2));
        reference::UpdateElement(ftrl, {.rate = 0.5}, kv.num_workers(), &expected);
        NDArray row = Filled(kv, {1, 2}, 0);
        kv.RowSparsePull(kKey, NDArray::From(std::span<const int64_t>(Ids{4}), {1}), &row);
        EXPECT_THAT(row.ToVector(), Each(FloatNear(static_cast<float>(expected.weight), 1e-5f))) << value;
      }
      kv.Barrier();
      kv.SetRowSparse(kKey, RowsOf(kv, {4}, {value, value}, 2));
      kv.Barrier();
      expected.weight = value;
    }
  });
}

// One table has more rows than an answer lists, another one more bytes than a message carries.
TEST_P(Tables, LargeOnesTravelInPieces) {
  MakeJob(1).Run([](KVStore& kv) {
    const Key wide = std::string("wide");
    kv.InitRowSparse(kKey, {1'200'000, 1});
    kv.InitRowSparse(wide, {100'000, 64});
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
    const Ids ids = AllOf(1'200'000, 2), wide_ids = AllOf(100'000, 2);
    if (kv.rank() == 0) {
      kv.PushRowSparse(kKey, RowsOf(kv, ids, std::vector<float>(ids.size(), 1), 1));
    } else {
      kv.PushRowSparse(kKey, RowsOf(kv, {}, {}, 1));
    }
    EXPECT_EQ(kv.RowSparseIds(kKey).ToVector<int64_t>(), ids);
    std::vector<float> values(wide_ids.size() * 64);
    std::iota(values.begin(), values.end(), 0.0f);
    kv.SetRowSparse(wide, RowsOf(kv, wide_ids, values, 64));
    kv.Barrier();
    NDArray rows = Filled(kv, {static_cast<int64_t>(wide_ids.size()), 64}, 0);
    kv.RowSparsePull(wide, NDArray::From(std::span<const int64_t>(wide_ids), {rows.shape()[0]}), &rows);
    EXPECT_EQ(rows.ToVector(), values);
  });
}

constexpr int64_t kRows = 40;
constexpr int kHalf = 6;

OptimizerConfig Config(OptimizerKind kind) {
  OptimizerConfig config{.kind = kind, .learning_rate = 0.1, .momentum = 0};
  if (kind == OptimizerKind::kSgd) config.momentum = 0.9;
  return config;
}
// Returns the ids of a step's rows.
Ids Named(int step) {
  Ids ids;
  for (int64_t row = 0; row < kRows; ++row)
    if (MixBits(static_cast<uint64_t>(100 * step + row)) % 4 == 0) ids.push_back(row);
  return ids;
}
float GradientOf(int step, int64_t row) {
  return 0.1f * static_cast<float>(row % 7) - 0.05f * static_cast<float>(step);
}

void Train(KVStore& kv, int first, int last) {
  for (int step = first; step <= last; ++step) {
    std::vector<float> values;
    for (const int64_t row : Named(step)) values.push_back(GradientOf(step, row));
    const bool pushes = kv.rank() == 0;
    kv.PushRowSparse(kKey, pushes ? RowsOf(kv, Named(step), values, 1) : RowsOf(kv, {}, {}, 1));
  }
  kv.WaitAll();
  kv.Barrier();
}

class SavedTables : public Tables {};
INSTANTIATE_TEST_SUITE_P(Stores, SavedTables, ::testing::ValuesIn(kTypes),
                         [](const auto& info) { return "read_by_" + info.param; });

// Files that stores of every type have written are read by a store of this type.
TEST_P(SavedTables, TrainingGoesOnFromAFileAndTheRows) {
  for (const std::string& writer : kTypes) {
    for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdam}) {
      const auto begin = [&](KVStore& kv) {
        kv.InitRowSparse(kKey, {kRows, 1}, DType::kFloat32, RowInit::Constant(2));
        kv.SetOptimizer(Config(kind));
        kv.Barrier();
      };
      Ids ids;
      std::vector<float> weights;
      Job({.type = writer}).Run([&](KVStore& kv) {
        begin(kv);
        Train(kv, 1, kHalf);
        kv.SaveOptimizerStates(path_);
        ids = kv.RowSparseIds(kKey).ToVector<int64_t>();
        NDArray rows = Filled(kv, {static_cast<int64_t>(ids.size()), 1}, 0);
        kv.RowSparsePull(kKey, kv.RowSparseIds(kKey), &rows);
        weights = rows.ToVector();
      });
      std::vector<reference::Element> expected(kRows, {.weight = 2});
      for (int step = 1; step <= 2 * kHalf; ++step) {
        for (const int64_t row : Named(step)) {
          std::vector<double> gradient{GradientOf(step, row)};
          reference::UpdateArray(Config(kind), {.rate = 0.1, .t = step}, gradient,
                                 std::span(expected).subspan(static_cast<size_t>(row), 1));
        }
      }
      MakeJob().Run([&](KVStore& kv) {
        begin(kv);
        kv.LoadOptimizerStates(path_);
        kv.SetRowSparse(kKey, RowsOf(kv, ids, weights, 1));
        kv.Barrier();
        Train(kv, kHalf + 1, 2 * kHalf);
        NDArray rows = Filled(kv, {kRows, 1}, 0);
        const Ids all = AllOf(kRows);
        kv.RowSparsePull(kKey, NDArray::From(std::span<const int64_t>(all), {kRows}), &rows);
        const std::vector<float> after = rows.ToVector();
        for (size_t row = 0; row < after.size(); ++row)
          EXPECT_NEAR(after[row], expected[row].weight, 5e-6)
              << writer << ", " << Name(kind) << ", row " << row;
      });
    }
  }
}

TEST_P(SavedTables, FilesThatDoNotFitAreNamed) {
  const auto write = [&](const std::vector<int64_t>& rows, int64_t states, const std::string& updates = "3") {
    const std::vector<float> momentum(static_cast<size_t>(states));
    const std::vector<TensorView> tensors = {
        {"weight/rows", DType::kInt64, Shape{static_cast<int64_t>(rows.size())},
         std::as_bytes(std::span(rows))},
        {"weight/momentum", DType::kFloat32, Shape{states, 1}, std::as_bytes(std::span(momentum))}};
    const Metadata metadata = {
        {"format", "sluice optimizer states 1"}, {"optimizer", "sgd"}, {"updates of weight", updates}};
    WriteSafetensors(path_, tensors, metadata).OrThrow();
  };
  MakeJob().Run([&](KVStore& kv) {
    kv.InitRowSparse(kKey, {kRows, 1});
    kv.SetOptimizer(Config(OptimizerKind::kSgd));
    kv.Barrier();
    if (kv.rank() != 0) return;
    const auto expect = [&](ErrorCode code, const std::vector<std::string>& texts) {
      ExpectError(code, texts, [&] { kv.LoadOptimizerStates(path_); });
    };
    write({3, 2}, 2);
    expect(ErrorCode::kDataLoss, {path_, "row 2 after row 3"});
    write({3, 40}, 2);
    expect(ErrorCode::kDataLoss, {"row 40 after row 3", "up to 39"});
    write({3, 4}, 3);
    expect(ErrorCode::kInvalidArgument, {"weight/momentum", "[3, 1]", "[2, 1]"});
    for (const char* updates : {"-1", "9007199254740993", "many"}) {  // the largest valid number is 2^53
      write({3, 4}, 2, updates);
      expect(ErrorCode::kDataLoss, {"updates of key weight", updates});
    }
    write({3, 4}, 2);
    kv.LoadOptimizerStates(path_);
    EXPECT_THAT(kv.RowSparseIds(kKey).ToVector<int64_t>(), ElementsAre(3, 4));
  });
}

}  // namespace
}  // namespace sluice::testing
