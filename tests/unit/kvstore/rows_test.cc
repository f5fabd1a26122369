// Tables of rows, batches of ids, and the update of the rows that were pushed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/rng.h"
#include "base/strings.h"
#include "kvstore/rows/row_batch.h"
#include "kvstore/rows/row_fill.h"
#include "kvstore/rows/update_rows.h"
#include "tensor/types/half.h"
#include "unit/row_ids.h"

namespace sluice::kvstore {
namespace {

using sluice::testing::RowOfPartZero;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

wire::KeySpec TableOf(DType dtype, int64_t rows, int64_t columns, const RowInit& init = {}) {
  return {.name = "table", .dtype = dtype, .shape = {rows, columns}, .rows = init};
}

TEST(RowBatch, EveryIdOnceByPartWithItsPositions) {
  for (const size_t count : {0u, 1u, 7u, 511u, 512u, 5000u}) {
    Rng rng(count);
    const plan::RowPlaces places{.rows = 3000, .row_elements = 1, .parts = 32};
    std::vector<int64_t> named(count);
    for (int64_t& id : named) id = static_cast<int64_t>(rng.Below(3000));
    const RowBatch batch = MakeBatch(named, places);
    std::vector<std::vector<uint32_t>> positions(3000);
    for (uint32_t i = 0; i < count; ++i) positions[static_cast<size_t>(named[i])].push_back(i);
    size_t seen = 0;
    for (uint32_t part = 0; part < places.parts; ++part) {
      const std::span<const int64_t> ids = batch.IdsOf(part);
      ASSERT_TRUE(std::ranges::is_sorted(ids, std::less_equal<>())) << part;
      for (size_t i = 0; i < ids.size(); ++i) {
        ASSERT_EQ(places.PartOf(ids[i]), part);
        const auto of_row = batch.PositionsOf(batch.part_begin[part] + i);
        ASSERT_EQ(std::vector(of_row.begin(), of_row.end()), positions[static_cast<size_t>(ids[i])]);
        seen += of_row.size();
      }
    }
    EXPECT_EQ(seen, count);
  }
}

TEST(RowBatch, LargeTablesSortAsSmallOnes) {
  const plan::RowPlaces places{.rows = int64_t{1} << 40, .row_elements = 1, .parts = 16};
  Rng rng(1);
  std::vector<int64_t> named(2000);
  for (int64_t& id : named) id = static_cast<int64_t>(rng.Below(uint64_t{1} << 40));
  const RowBatch batch = MakeBatch(named, places);
  std::ranges::sort(named);
  std::vector<int64_t> ids = batch.ids;
  std::ranges::sort(ids);
  EXPECT_EQ(ids, named);
  for (uint32_t part = 0; part < 16; ++part) EXPECT_TRUE(std::ranges::is_sorted(batch.IdsOf(part)));
}

Frame FrameOfIds(const std::vector<int64_t>& ids, size_t more = 0) {
  std::vector<std::byte> bytes(ids.size() * sizeof(int64_t) + more);
  if (!ids.empty()) std::memcpy(bytes.data(), ids.data(), ids.size() * sizeof(int64_t));
  return Frame::Copy(bytes);
}

TEST(RowFrames, WhatANetworkMayBringIsChecked) {
  const plan::RowPlaces places{.rows = 100, .row_elements = 3, .parts = 4};
  const int64_t row = RowOfPartZero(0, 4), next = RowOfPartZero(1, 4), last = RowOfPartZero(24, 4);
  const int64_t other = row == 0 ? 1 : 0;
  const std::string of_another = StrCat("row ", other, " is of part ", places.PartOf(other));
  const auto why = [&](const std::vector<int64_t>& ids, size_t more = 0) {
    return InvalidIdsReason(FrameOfIds(ids, more).bytes(), places, 0);
  };
  EXPECT_EQ(why({}), "");
  EXPECT_EQ(why({row, next, last}), "");
  EXPECT_THAT(why({other}), HasSubstr(of_another));
  EXPECT_THAT(why({next, next}), HasSubstr(StrCat("row ", next, " comes after row ", next)));
  EXPECT_THAT(why({next, row}), HasSubstr(StrCat("row ", row, " comes after row ", next)));
  EXPECT_THAT(why({100}), HasSubstr("row 100 was named; the key has rows 0 to 99"));
  EXPECT_THAT(why({-3}), HasSubstr("row -3 was named"));
  EXPECT_THAT(why({row}, 3), HasSubstr("11 bytes are no list"));

  const auto why_rows = [&](const std::vector<int64_t>& ids, size_t more) {
    return InvalidRowsReason(FrameOfIds(ids, more).bytes(), 12, places, 0);
  };
  EXPECT_EQ(why_rows({}, 0), "");
  EXPECT_EQ(why_rows({row, last}, 24), "");
  EXPECT_THAT(why_rows({row, last}, 23), HasSubstr("39 bytes are no rows, which take 20 bytes each"));
  EXPECT_THAT(why_rows({other, last}, 24), HasSubstr(of_another));
}

TEST(RowTable, RowsBeginWhenTheyAreTouchedAndReadTheSameBefore) {
  const wire::KeySpec spec = TableOf(DType::kFloat32, 1 << 30, 50, RowInit::Uniform(-2, 3, 9));
  RowTable table(spec);
  std::vector<float> before(50), after(50);
  for (const int64_t id : {int64_t{0}, int64_t{7}, int64_t{(1 << 30) - 1}}) {
    table.Read(id, reinterpret_cast<std::byte*>(before.data()));
    EXPECT_THAT(before, Each(::testing::AllOf(::testing::Ge(-2), ::testing::Lt(3))));
    const size_t rows = table.size();
    EXPECT_EQ(table.Touch(id), rows);
    EXPECT_EQ(table.Touch(id), rows);
    table.Read(id, reinterpret_cast<std::byte*>(after.data()));
    EXPECT_EQ(after, before);
  }
  EXPECT_EQ(table.size(), 3u);
  const std::vector<float> of_last = before;
  table.Read(0, reinterpret_cast<std::byte*>(before.data()));
  EXPECT_NE(before, of_last);
}

TEST(RowTable, GrowsChunkByChunkAndForgetsNothing) {
  const wire::KeySpec spec = TableOf(DType::kInt64, 1 << 20, 100);
  RowTable table(spec);
  const auto adam = Optimizer::Create({.kind = OptimizerKind::kAdam});
  Rng rng(2);
  const std::vector<uint64_t> ids = rng.Permutation(5000);
  for (const uint64_t id : ids) {
    const int64_t value = static_cast<int64_t>(id) * 3;
    std::memcpy(table.Weight(table.Touch(static_cast<int64_t>(id))), &value, sizeof(value));
  }
  EXPECT_EQ(table.size(), 5000u);
  std::vector<int64_t> row(100);
  for (const uint64_t id : ids) {
    table.Read(static_cast<int64_t>(id), reinterpret_cast<std::byte*>(row.data()));
    ASSERT_EQ(row[0], static_cast<int64_t>(id) * 3);
    ASSERT_EQ(row[1], 0);
  }
}

TEST(RowTable, StatesGoOnAsThoseOfArraysDo) {
  RowTable table(TableOf(DType::kFloat16, 10, 2));
  const auto sgd = Optimizer::Create({.kind = OptimizerKind::kSgd, .momentum = 0.9});
  const auto masters =
      Optimizer::Create({.kind = OptimizerKind::kSgd, .momentum = 0.9, .multi_precision = true});
  const auto adam = Optimizer::Create({.kind = OptimizerKind::kAdam});
  const auto first = [&](size_t slot) { return *reinterpret_cast<float*>(table.State(slot, 0)); };
  table.Touch(4);
  table.FitStates(sgd.get());
  ASSERT_EQ(table.num_states(), 1u);
  EXPECT_EQ(first(0), 0);
  *reinterpret_cast<float*>(table.State(0, 0)) = 5;
  table.FitStates(masters.get());
  ASSERT_EQ(table.num_states(), 2u);
  EXPECT_EQ(first(0), 5);
  table.FitStates(adam.get());
  ASSERT_EQ(table.num_states(), 2u);
  EXPECT_EQ(first(0), 0);
  table.FitStates(nullptr);
  EXPECT_EQ(table.num_states(), 0u);
}

template <typename T>
std::vector<std::byte> Stored(const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    if constexpr (std::is_same_v<T, Half>) {
      value = HalfFromFloat(static_cast<float>(values[i]));
    } else if constexpr (std::is_same_v<T, BFloat16>) {
      value = BFloat16FromFloat(static_cast<float>(values[i]));
    } else {
      value = static_cast<T>(values[i]);
    }
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

// Every row pushed by everybody: the same as an array of these elements, to the last bit.
template <typename T>
void ExpectAsDense(DType dtype, const OptimizerConfig& config, int64_t columns) {
  const int64_t rows = columns > 100 ? 5 : 70;
  constexpr size_t kWorkers = 3;
  const auto elements = static_cast<size_t>(rows * columns);
  const UpdateRule rule{.optimizer = Optimizer::Create(config), .updater = nullptr};
  const wire::KeySpec spec = TableOf(dtype, rows, columns);
  RowTable table(spec);
  std::vector<std::byte> weight = Stored<T>(std::vector<double>(elements));
  States states;
  FitStates(rule.optimizer.get(), dtype, elements, &states);
  Rng rng(4);
  std::vector<int64_t> ids(static_cast<size_t>(rows));
  std::iota(ids.begin(), ids.end(), 0);
  for (int update = 1; update <= 5; ++update) {
    std::vector<std::vector<std::byte>> gradients, bytes;
    std::vector<RowFrame> frames;
    std::vector<compression::Encoded> dense;
    for (size_t w = 0; w < kWorkers; ++w) {
      std::vector<double> values(elements);
      for (double& value : values) value = std::nearbyint(rng.Normal() * 64) / 8;
      gradients.push_back(Stored<T>(values));
      std::vector<std::byte>& frame = bytes.emplace_back(ids.size() * sizeof(int64_t));
      std::memcpy(frame.data(), ids.data(), frame.size());
      frame.insert(frame.end(), gradients.back().begin(), gradients.back().end());
    }
    for (size_t w = 0; w < kWorkers; ++w) {
      dense.push_back({gradients[w].data(), gradients[w].size()});
      frames.emplace_back(bytes[w], table.row_bytes());
    }
    UpdateInput input{.spec = &spec,
                      .length = elements,
                      .gradients = dense,
                      .scale = IsFloating(dtype) ? 0.5 : 1.0,
                      .num_update = update};
    UpdatePart(rule, input, weight.data(), weight.data(), states.arrays);
    input.gradients = {};
    UpdateRows(rule, input, frames, &table);
  }
  std::vector<std::byte> row(table.row_bytes());
  for (int64_t id = 0; id < rows; ++id) {
    table.Read(id, row.data());
    ASSERT_EQ(std::memcmp(row.data(), weight.data() + static_cast<size_t>(id) * row.size(), row.size()), 0)
        << Name(dtype) << ", " << Name(config.kind) << ", row " << id << " of " << columns << " columns";
  }
}

TEST(UpdateRows, TouchedRowsAreUpdatedAsArraysAreToTheLastBit) {
  for (const int64_t columns : {1, 3, 64, 3000}) {
    for (const OptimizerKind kind :
         {OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kRmsProp, OptimizerKind::kAccumulate}) {
      const OptimizerConfig config{.kind = kind, .learning_rate = 0.1};
      ExpectAsDense<float>(DType::kFloat32, config, columns);
      ExpectAsDense<double>(DType::kFloat64, config, columns);
      ExpectAsDense<Half>(DType::kFloat16, config, columns);
      OptimizerConfig with_masters = config;
      with_masters.multi_precision = true;
      ExpectAsDense<BFloat16>(DType::kBFloat16, with_masters, columns);
    }
    ExpectAsDense<int32_t>(DType::kInt32, {.kind = OptimizerKind::kAccumulate}, columns);
    ExpectAsDense<int64_t>(DType::kInt64, {.kind = OptimizerKind::kAccumulate}, columns);
    ExpectAsDense<uint8_t>(DType::kUInt8, {.kind = OptimizerKind::kAccumulate}, columns);
  }
}

std::vector<std::byte> FloatFrame(const std::vector<int64_t>& ids, const std::vector<float>& rows) {
  std::vector<std::byte> bytes(ids.size() * sizeof(int64_t) + rows.size() * sizeof(float));
  std::memcpy(bytes.data(), ids.data(), ids.size() * sizeof(int64_t));
  std::memcpy(bytes.data() + ids.size() * sizeof(int64_t), rows.data(), rows.size() * sizeof(float));
  return bytes;
}

TEST(UpdateRows, RowsAreSummedInTheOrderOfRanks) {
  RowTable table(TableOf(DType::kFloat32, 100, 1));
  const wire::KeySpec spec = TableOf(DType::kFloat32, 100, 1);
  // 1 is lost beside 2^25, unless they have come and gone before.
  const float big = 33554432;
  const std::vector<std::vector<std::byte>> frames = {FloatFrame({3, 8}, {1, 1}), FloatFrame({3}, {big}),
                                                      FloatFrame({3, 8}, {-big, 2})};
  std::vector<RowFrame> views;
  for (const auto& frame : frames) views.emplace_back(frame, sizeof(float));
  UpdateRows({}, {.spec = &spec}, views, &table);
  float row = 0;
  table.Read(3, reinterpret_cast<std::byte*>(&row));
  EXPECT_EQ(row, 0);
  table.Read(8, reinterpret_cast<std::byte*>(&row));
  EXPECT_EQ(row, 3);
  EXPECT_EQ(table.size(), 2u);
}

// A server program's own function hears where each row lies.
TEST(UpdateRows, AnOwnFunctionIsCalledRowByRow) {
  const wire::KeySpec spec = TableOf(DType::kFloat32, 100, 2, RowInit::Constant(1));
  RowTable table(spec);
  std::vector<int64_t> offsets;
  const UpdateRule rule{
      .optimizer = nullptr,
      .updater = [&](const UpdateContext& call, std::span<const float> gradient, std::span<float> weight) {
        offsets.push_back(call.offset);
        for (size_t i = 0; i < weight.size(); ++i) weight[i] -= gradient[i];
      }};
  const std::vector<std::byte> frame = FloatFrame({5, 70}, {1, 2, 3, 4});
  const RowFrame view(frame, 8);
  UpdateRows(rule, {.spec = &spec, .scale = 0.5}, std::span(&view, 1), &table);
  EXPECT_THAT(offsets, ElementsAre(10, 140));
  std::vector<float> row(2);
  table.Read(70, reinterpret_cast<std::byte*>(row.data()));
  EXPECT_THAT(row, ElementsAre(-0.5, -1));
}

TEST(RowInits, WhatNoTableCanBeginWithIsNamed) {
  const auto why = [](const RowInit& init, const Shape& shape = {4, 2}, DType dtype = DType::kFloat32) {
    return InvalidReason(init, shape, dtype);
  };
  EXPECT_EQ(why({}), "");
  EXPECT_EQ(why(RowInit::Constant(-3), {4}, DType::kInt32), "");
  EXPECT_THAT(why({}, {}), HasSubstr("no row"));
  EXPECT_THAT(why({}, {3, 0}), HasSubstr("no row"));
  EXPECT_THAT(why({}, {3, 1 << 18, 2}), HasSubstr("524288 elements"));
  EXPECT_THAT(why(RowInit::Constant(NAN)), HasSubstr("finite"));
  EXPECT_THAT(why(RowInit::Normal(0, INFINITY)), HasSubstr("width of inf"));
  EXPECT_THAT(why(RowInit::Uniform(1, 0)), HasSubstr("not below 0"));
  EXPECT_THAT(why({.fill = static_cast<RowFill>(7)}), HasSubstr("fill 7"));
  EXPECT_THAT(why(RowInit::Uniform(0, 1), {4}, DType::kInt64), HasSubstr("whole constant"));
  EXPECT_THAT(why(RowInit::Constant(0.5), {4}, DType::kInt64), HasSubstr("whole constant"));
  EXPECT_THAT(why(RowInit::Constant(256), {4}, DType::kUInt8), HasSubstr("whole constant"));
  EXPECT_THAT(why(RowInit::Constant(-1), {4}, DType::kUInt8), HasSubstr("whole constant"));
  EXPECT_THAT(why(RowInit::Constant(0x1p63), {4}, DType::kInt64), HasSubstr("whole constant"));
  EXPECT_EQ(why(RowInit::Constant(-0x1p63), {4}, DType::kInt64), "");
}

}  // namespace
}  // namespace sluice::kvstore
