// Row-sparse pushes and pulls that fill a frame, or need more than one (docs/design/sparse.md). A row here
// takes 1 MiB, so eight rows of one part fill a frame.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/strings.h"
#include "contract/weight_key.h"
#include "unit/row_ids.h"
#include "wire/codec.h"

namespace sluice::testing {
namespace {

using Ids = std::vector<int64_t>;

constexpr int64_t kParts = 32;  // parts of a table on one shard
// A row with its id takes 1 MiB.
constexpr int64_t kColumns = ((1 << 20) - 8) / 4;
constexpr int64_t kFull = 8;  // rows of one part that fill a frame
static_assert(kFull << 20 == wire::kMostFrameBytes);

Ids OfOnePart(int64_t count, int64_t first = 0) {
  Ids ids;
  for (int64_t i = first; i < first + count; ++i) ids.push_back(RowOfPartZero(i, kParts));
  return ids;
}

NDArray IdsOf(const KVStore& kv, const Ids& ids) {
  return NDArray::From(std::span<const int64_t>(ids), {static_cast<int64_t>(ids.size())}, DeviceOf(kv));
}
RowSparse RowsOf(const KVStore& kv, const Ids& ids, float value) {
  return {IdsOf(kv, ids), Filled(kv, {static_cast<int64_t>(ids.size()), kColumns}, value)};
}
// Pulls rows and returns one number for each; expects that all elements of a row are equal.
std::vector<float> PullRows(KVStore& kv, const Ids& ids) {
  NDArray rows = Filled(kv, {static_cast<int64_t>(ids.size()), kColumns}, 77);
  kv.RowSparsePull(kKey, IdsOf(kv, ids), &rows);
  const std::vector<float> values = rows.ToVector();
  std::vector<float> of_rows;
  for (auto row = values.begin(); row != values.end(); row += kColumns) {
    of_rows.push_back(*row);
    EXPECT_TRUE(std::all_of(row, row + kColumns, [&](float value) { return value == *row; }));
  }
  return of_rows;
}

class LargeRows : public ::testing::TestWithParam<std::string> {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  Job MakeJob() const { return Job({.type = GetParam(), .workers = 1, .servers = 1}); }
  static void Init(KVStore& kv, const OptimizerConfig& optimizer) {
    kv.InitRowSparse(kKey, {kParts * 100, kColumns}, DType::kFloat32, RowInit::Constant(1));
    kv.SetOptimizer(optimizer);
  }
  const std::string path_ =
      (std::filesystem::temp_directory_path() / StrCat("large-rows-", getpid(), ".safetensors")).string();
};
INSTANTIATE_TEST_SUITE_P(Stores, LargeRows, ::testing::Values("dist_sync", "dist_async"),
                         [](const auto& info) { return info.param; });

TEST_P(LargeRows, AsManyAsAFrameHoldsArePushed) {
  MakeJob().Run([](KVStore& kv) {
    Init(kv, {.kind = OptimizerKind::kAccumulate});
    kv.PushRowSparse(kKey, RowsOf(kv, OfOnePart(kFull), 2));
    EXPECT_EQ(PullRows(kv, OfOnePart(kFull)), std::vector<float>(kFull, 3));
  });
}

TEST_P(LargeRows, OneMoreIsAnErrorThatSaysWhatToDoAndNothingHasHappened) {
  MakeJob().Run([](KVStore& kv) {
    Init(kv, {.kind = OptimizerKind::kAccumulate});
    ExpectError(ErrorCode::kResourceExhausted,
                {"PushRowSparse of key weight", "9 different rows", "part 0", "9437184 bytes", "8388608",
                 "fewer rows at a time, or use more servers"},
                [&] { kv.PushRowSparse(kKey, RowsOf(kv, OfOnePart(kFull + 1), 2)); });
    kv.PushRowSparse(kKey, RowsOf(kv, OfOnePart(kFull, 1), 2));
    EXPECT_EQ(PullRows(kv, OfOnePart(2)), (std::vector<float>{1, 3}));
  });
}

TEST_P(LargeRows, MoreThanAFrameHoldsArePulledAndSet) {
  MakeJob().Run([](KVStore& kv) {
    constexpr int64_t kMany = 2 * kFull + 3;
    Init(kv, {.kind = OptimizerKind::kAccumulate});
    kv.SetRowSparse(kKey, RowsOf(kv, OfOnePart(kMany), 5));
    Ids wanted = OfOnePart(kMany + 1);
    std::reverse(wanted.begin(), wanted.end());
    wanted.push_back(1);  // a row of another part
    std::vector<float> expected(kMany + 2, 5);
    expected.front() = expected.back() = 1;
    EXPECT_EQ(PullRows(kv, wanted), expected);
  });
}

// The states are those of two pushes, each of which fits a frame; together they do not.
TEST_P(LargeRows, TheirStatesAreSavedAndLoaded) {
  MakeJob().Run([&](KVStore& kv) {
    const OptimizerConfig sgd{.kind = OptimizerKind::kSgd, .learning_rate = 1, .momentum = 0.5};
    Init(kv, sgd);
    const auto push = [&] {
      for (const int64_t first : {int64_t{0}, kFull})
        kv.PushRowSparse(kKey, RowsOf(kv, OfOnePart(kFull, first), 1));
    };
    push();  // the velocity is -1
    kv.SaveOptimizerStates(path_);
    push();  // the velocity is -1.5
    kv.LoadOptimizerStates(path_);
    push();
    EXPECT_EQ(PullRows(kv, OfOnePart(2 * kFull)), std::vector<float>(2 * kFull, 1 - 1 - 1.5f - 1.5f));
  });
}

}  // namespace
}  // namespace sluice::testing
