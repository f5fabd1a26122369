// Row-sparse gradients of embeddings: added up by id they are the gradient of a dense table, which is
// computed here in float64; what adds to them, clears them, and is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "sluice/autograd.h"
#include "sluice/ops.h"
#include "unit/expect_error.h"

namespace sluice::autograd {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointwise;

constexpr int64_t kRows = 7, kColumns = 3;
using Sums = std::vector<double>;  // [kRows, kColumns]

NDArray Table(GradReq req = GradReq::kWrite) {
  NDArray table({kRows, kColumns});
  table.Fill(0.5);
  AttachRowGrad(table, req);
  return table;
}

// Adds up a table's row-sparse gradient by id.
Sums SumOfRows(const NDArray& table) {
  Sums sums(kRows * kColumns);
  for (const RowSparse& part : RowGrad(table)) {
    const std::vector<int64_t> ids = part.ids.ToVector<int64_t>();
    const std::vector<float> rows = part.rows.ToVector();
    EXPECT_EQ(rows.size(), ids.size() * kColumns);
    for (size_t i = 0; i < rows.size(); ++i)
      sums[static_cast<size_t>(ids[i / kColumns]) * kColumns + i % kColumns] += static_cast<double>(rows[i]);
  }
  return sums;
}

template <typename Id>
NDArray Typed(const std::vector<int64_t>& numbers, const Shape& shape) {
  const std::vector<Id> ids(numbers.begin(), numbers.end());
  return NDArray::From(ids, shape);
}

NDArray ArrayOf(const std::vector<int64_t>& numbers, const Shape& shape, DType type) {
  if (type == DType::kInt32) return Typed<int32_t>(numbers, shape);
  if (type == DType::kUInt8) return Typed<uint8_t>(numbers, shape);
  if (type == DType::kFloat32) return Typed<float>(numbers, shape);
  return Typed<int64_t>(numbers, shape);
}

// Ids of `shape`, and the gradient of what an operation makes of them.
struct Batch {
  NDArray ids, head_grad;
  std::vector<int64_t> numbers;
  std::vector<float> grads;
};

Batch MakeBatch(const Shape& ids, const Shape& out, DType type, uint64_t seed) {
  Rng rng(seed);
  Batch batch;
  for (int64_t i = 0; i < ids.size(); ++i) batch.numbers.push_back(static_cast<int64_t>(rng.Below(kRows)));
  for (int64_t i = 0; i < out.size(); ++i) batch.grads.push_back(static_cast<float>(rng.Below(64)) / 16 - 2);
  batch.ids = ArrayOf(batch.numbers, ids, type);
  batch.head_grad = NDArray::From(std::span<const float>(batch.grads), out);
  return batch;
}

void RunEmbedding(const Batch& batch, const NDArray& table, std::optional<int64_t> padding) {
  NDArray out;
  {
    const RecordScope record;
    out = ops::Embedding(batch.ids, table, padding);
  }
  Backward(out, batch.head_grad);
}

Sums ExpectedOfEmbedding(const Batch& batch, std::optional<int64_t> padding) {
  Sums sums(kRows * kColumns);
  for (size_t i = 0; i < batch.grads.size(); ++i) {
    const int64_t id = batch.numbers[i / kColumns];
    if (id != padding) sums[static_cast<size_t>(id) * kColumns + i % kColumns] += batch.grads[i];
  }
  return sums;
}

TEST(RowGradient, OfAnEmbeddingIsTheDenseOne) {
  for (const DType type : {DType::kInt64, DType::kInt32, DType::kFloat32, DType::kUInt8}) {
    for (const auto padding : {std::optional<int64_t>(), std::optional<int64_t>(2)}) {
      SCOPED_TRACE(std::string(Name(type)) + (padding ? " with padding" : ""));
      const Batch batch = MakeBatch({4, 5}, {4, 5, kColumns}, type, 1);
      const NDArray table = Table();
      RunEmbedding(batch, table, padding);
      EXPECT_THAT(SumOfRows(table), Pointwise(DoubleNear(1e-6), ExpectedOfEmbedding(batch, padding)));
      EXPECT_EQ(GradVersion(table), 1u);
    }
  }
}

TEST(RowGradient, OfBagsIsTheDenseOne) {
  for (const auto padding : {std::optional<int64_t>(), std::optional<int64_t>(2)}) {
    Batch batch = MakeBatch({6, 4}, {6, kColumns}, DType::kInt64, 2);
    if (padding) {  // a bag of padding alone
      std::fill_n(batch.numbers.begin(), 4, *padding);
      batch.ids = ArrayOf(batch.numbers, {6, 4}, DType::kInt64);
    }
    const NDArray table = Table();
    NDArray out;
    {
      const RecordScope record;
      out = ops::EmbeddingBag(batch.ids, table, padding);
    }
    Backward(out, batch.head_grad);
    Sums expected(kRows * kColumns);
    for (size_t bag = 0; bag < 6; ++bag) {
      const auto begin = batch.numbers.begin() + static_cast<ptrdiff_t>(bag * 4);
      const auto count =
          static_cast<double>(std::count_if(begin, begin + 4, [&](int64_t id) { return id != padding; }));
      for (size_t i = 0; i < 4 * kColumns; ++i) {
        const int64_t id = begin[static_cast<ptrdiff_t>(i / kColumns)];
        if (id == padding) continue;
        const double grad = batch.grads[bag * kColumns + i % kColumns];
        expected[static_cast<size_t>(id) * kColumns + i % kColumns] += grad / count;
      }
    }
    EXPECT_THAT(SumOfRows(table), Pointwise(DoubleNear(1e-6), expected));
  }
}

// Two uses of a table in one pass, and two passes with kAdd, add up; kWrite replaces.
TEST(RowGradient, AddsUpUsesAndPasses) {
  const Batch first = MakeBatch({3}, {3, kColumns}, DType::kInt64, 3);
  const Batch second = MakeBatch({5}, {5, kColumns}, DType::kInt64, 4);
  Sums both = ExpectedOfEmbedding(first, {});
  const Sums of_second = ExpectedOfEmbedding(second, {});
  for (size_t i = 0; i < both.size(); ++i) both[i] += of_second[i];

  const NDArray written = Table();
  std::vector<NDArray> heads;
  {
    const RecordScope record;
    heads = {ops::Embedding(first.ids, written), ops::Embedding(second.ids, written)};
  }
  Backward(heads, {first.head_grad, second.head_grad});
  EXPECT_THAT(SumOfRows(written), Pointwise(DoubleNear(1e-6), both));
  RunEmbedding(second, written, {});
  EXPECT_THAT(SumOfRows(written), Pointwise(DoubleNear(1e-6), of_second));

  const NDArray added = Table(GradReq::kAdd);
  RunEmbedding(first, added, {});
  RunEmbedding(second, added, {});
  EXPECT_THAT(SumOfRows(added), Pointwise(DoubleNear(1e-6), both));
  EXPECT_EQ(GradVersion(added), 2u);
  SetRowGrad(added, {});
  EXPECT_THAT(RowGrad(added), IsEmpty());
}

TEST(RowGradient, TheHookRunsOnceThePassHasAllRows) {
  const Batch batch = MakeBatch({4}, {4, kColumns}, DType::kInt64, 5);
  NDArray table = Table();
  std::vector<size_t> parts;  // by call of the hook
  SetGradHook(table, [&] { parts.push_back(RowGrad(table).size()); });
  std::vector<NDArray> heads;
  {
    const RecordScope record;
    heads = {ops::Embedding(batch.ids, table), ops::Embedding(batch.ids, table)};
  }
  Backward(heads, {batch.head_grad, batch.head_grad});
  EXPECT_EQ(parts, std::vector<size_t>{2});
  SetGradHook(table, nullptr);
}

TEST(RowGradient, ABatchOfPaddingAloneGivesNoRowsAndCounts) {
  const NDArray table = Table();
  const NDArray ids = ArrayOf({2, 2}, {2}, DType::kInt32);
  NDArray out;
  {
    const RecordScope record;
    out = ops::Embedding(ids, table, 2);
  }
  Backward(out);
  EXPECT_THAT(SumOfRows(table), Pointwise(DoubleNear(0), Sums(kRows * kColumns)));
  EXPECT_EQ(GradVersion(table), 1u);
}

// The caller of Backward goes on to use its head gradient.
TEST(RowGradient, KeepsTheValuesOfAHeadGradient) {
  const Batch batch = MakeBatch({4}, {4, kColumns}, DType::kInt64, 7);
  const NDArray table = Table();
  RunEmbedding(batch, table, {});
  NDArray head = batch.head_grad;
  head.Fill(0);
  EXPECT_THAT(SumOfRows(table), Pointwise(DoubleNear(1e-6), ExpectedOfEmbedding(batch, {})));
}

TEST(RowGradient, TakesOnlyRowsThatFit) {
  const NDArray table = Table(), ids = ArrayOf({1, 2}, {2}, DType::kInt32);
  SetRowGrad(table, {{ids, NDArray({2, kColumns})}});
  EXPECT_EQ(RowGrad(table).size(), 1u);
  const NDArray floats = ArrayOf({1, 2}, {2}, DType::kFloat32);
  for (const RowSparse& bad :
       {RowSparse{ids, NDArray({2, kColumns + 1})}, RowSparse{ids, NDArray({3, kColumns})},
        RowSparse{ids, NDArray({2, kColumns}, cpu(0), DType::kFloat16)},
        RowSparse{floats, NDArray({2, kColumns})}, RowSparse{ids, {}}, RowSparse{}}) {
    EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { SetRowGrad(table, {bad}); }),
                HasSubstr("SetRowGrad of a table [7, 3]"));
  }
  EXPECT_EQ(RowGrad(table).size(), 1u);
}

TEST(RowGradient, RefusesWhatIsNotRowSparse) {
  NDArray line({4}), halves({4, 2}, cpu(0), DType::kFloat16), dense({4, 2}), none;
  for (NDArray* array : {&line, &halves}) {
    EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { AttachRowGrad(*array); }),
                HasSubstr("a table is float32 [rows, columns]"));
  }
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { AttachRowGrad(none); }),
              HasSubstr("was never made"));
  AttachGrad(dense);
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { RowGrad(dense); }),
              HasSubstr("call AttachRowGrad"));
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { SetRowGrad(dense, {}); }),
              HasSubstr("call AttachRowGrad"));
  const NDArray table = Table();
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { Grad(table); }), HasSubstr("RowGrad returns it"));

  NDArray sum;
  {
    const RecordScope record;
    sum = ops::Dense(NDArray({2, kColumns}), table);
  }
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { Backward(sum); }),
              HasSubstr("an operation other than Embedding"));
  const Batch batch = MakeBatch({4}, {4, kColumns}, DType::kInt64, 6);
  RunEmbedding(batch, table, {});  // what was refused leaves nothing behind
  EXPECT_THAT(SumOfRows(table), Pointwise(DoubleNear(1e-6), ExpectedOfEmbedding(batch, {})));
}

}  // namespace
}  // namespace sluice::autograd
