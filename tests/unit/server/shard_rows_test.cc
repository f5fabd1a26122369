// Row-sparse keys on a shard: what it refuses, who waits for which rows, and what a round changes.
#include <gmock/gmock.h>

#include "kvstore/rows/row_frame.h"
#include "unit/row_ids.h"
#include "unit/server/shard_harness.h"
#include "wire/codec.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Two columns a row; all parts are on the shard, and part 0 has one of every 32 rows.
constexpr int64_t kParts = 32, kRows = 10 * kParts;
const int64_t kRow1 = RowOfPartZero(1, kParts), kRow2 = RowOfPartZero(2, kParts),
              kRow3 = RowOfPartZero(3, kParts), kRow4 = RowOfPartZero(4, kParts);

class ShardRows : public ::testing::Test {
 protected:
  explicit ShardRows(wire::SyncMode mode = wire::SyncMode::kSync) : harness_(2) {
    EXPECT_TRUE(harness_.shard.SetOptimizer({.kind = OptimizerKind::kAccumulate}, {}).ok());
    plan::Placement placement({.num_shards = 1});
    entry_ = placement.EntryOf(0, {"table", DType::kFloat32, {kRows, 2}, 0, RowInit::Constant(1)}, mode);
    EXPECT_TRUE(harness_.shard.AddKeys({entry_}).ok());
  }

  static std::vector<int64_t> IdsOfPartZero(int64_t rows) {
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < rows; ++i) ids.push_back(RowOfPartZero(i, kParts));
    return ids;
  }
  static Frame IdFrame(const std::vector<int64_t>& ids) { return FrameOf(ids, 3); }
  // Every element is `value`.
  static Frame RowsFrame(const std::vector<int64_t>& ids, float value) {
    std::vector<std::byte> bytes(ids.size() * (sizeof(int64_t) + 2 * sizeof(float)));
    if (!ids.empty()) std::memcpy(bytes.data(), ids.data(), ids.size() * sizeof(int64_t));
    for (size_t i = 0; i < 2 * ids.size(); ++i)
      std::memcpy(bytes.data() + ids.size() * sizeof(int64_t) + i * sizeof(float), &value, sizeof(float));
    return FrameOf(bytes, 1);
  }

  // Rows of part 0; of all others none.
  std::vector<Sent> Push(uint32_t worker, uint64_t round, const std::vector<int64_t>& ids, float value) {
    wire::Push push;
    wire::Frames frames;
    for (uint32_t part = 0; part < 32; ++part) {
      push.parts.push_back({{0, part}, round, false});
      frames.push_back(part == 0 ? RowsFrame(ids, value) : Frame());
    }
    return harness_.Deliver(worker, push, std::move(frames));
  }
  std::vector<Sent> Pull(uint32_t worker, uint64_t min_version, const std::vector<int64_t>& ids) {
    return harness_.Deliver(worker, wire::PullRows{{{{0, 0}, 0, min_version}}}, {IdFrame(ids)});
  }
  static std::vector<float> RowsIn(const std::vector<Sent>& answers) {
    EXPECT_THAT(answers, SizeIs(1));
    return answers.size() == 1 && answers[0].Is<wire::Values>()
               ? ValuesOf<float>(answers[0].message.payload[0])
               : std::vector<float>();
  }
  static std::string Refusal(const std::vector<Sent>& answers) {
    EXPECT_THAT(answers, SizeIs(1));
    return answers.size() == 1 && answers[0].Is<wire::ErrorReply>()
               ? answers[0].As<wire::ErrorReply>().message
               : "";
  }

  ShardHarness harness_;
  wire::KeyEntry entry_;
};

class AsyncShardRows : public ShardRows {
 protected:
  AsyncShardRows() : ShardRows(wire::SyncMode::kAsync) {}
};

TEST_F(ShardRows, ARoundChangesTheRowsThatWerePushed) {
  EXPECT_THAT(RowsIn(Pull(0, 0, {kRow1, kRow2})), ElementsAre(1, 1, 1, 1));
  Push(0, 1, {kRow1, kRow3}, 2);
  EXPECT_THAT(RowsIn(Pull(0, 0, {kRow1})), ElementsAre(1, 1));  // worker 1 is missing
  Push(1, 1, {kRow3}, 10);
  EXPECT_THAT(RowsIn(Pull(0, 1, {kRow1, kRow2, kRow3})), ElementsAre(3, 3, 1, 1, 13, 13));
  EXPECT_EQ(harness_.Counter("rounds_closed"), 32u);
}

TEST_F(ShardRows, RepeatsCountOnce) {
  Push(0, 1, {kRow1}, 2);
  Push(0, 1, {kRow1}, 2);
  Push(1, 1, {}, 0);
  Push(1, 1, {kRow1}, 5);  // late, and not what it was
  EXPECT_THAT(RowsIn(Pull(0, 1, {kRow1})), ElementsAre(3, 3));
  EXPECT_EQ(harness_.Counter("repeats"), 64u);
}

TEST_F(ShardRows, PullsOfOtherRowsWaitBesideEachOther) {
  Push(0, 1, {kRow1}, 2);
  EXPECT_TRUE(Pull(0, 1, {kRow1}).empty());
  EXPECT_TRUE(Pull(0, 1, {kRow2, kRow3}).empty());
  // A repeat of the last takes its place.
  EXPECT_TRUE(harness_
                  .DeliverRaw(ShardHarness::PeerOf(0),
                              [&] {
                                wire::Message again;
                                again.sender = {wire::Role::kWorker, 0, 1000};
                                again.id = harness_.last_id;
                                again.body = wire::PullRows{{{{0, 0}, 0, 1}}};
                                again.payload = {IdFrame({kRow2, kRow3})};
                                return again;
                              }())
                  .empty());
  const std::vector<Sent> answers = Push(1, 1, {kRow2}, 4);
  std::vector<std::vector<float>> rows;
  for (const Sent& sent : answers)
    if (sent.Is<wire::Values>()) rows.push_back(ValuesOf<float>(sent.message.payload[0]));
  EXPECT_THAT(rows,
              ::testing::UnorderedElementsAre(std::vector<float>{3, 3}, std::vector<float>{5, 5, 1, 1}));
}

TEST_F(ShardRows, WhatDoesNotFitIsRefusedAndChangesNothing) {
  const auto push = [&](Frame frame, wire::Push of = {}) {
    of.parts = {{{0, 0}, 1, !of.parts.empty() && of.parts[0].want_value}};
    return Refusal(harness_.Deliver(0, of, {std::move(frame)}));
  };
  EXPECT_THAT(push(RowsFrame({33}, 1)), HasSubstr("row 33 is of part 1"));
  EXPECT_THAT(push(RowsFrame({kRow2, kRow1}, 1)),
              HasSubstr(StrCat("row ", kRow1, " comes after row ", kRow2)));
  EXPECT_THAT(push(RowsFrame({kRows}, 1)), HasSubstr("rows 0 to 319"));
  EXPECT_THAT(push(RowsFrame({kRow1}, 1).Slice(0, 15)), HasSubstr("15 bytes are no rows"));
  EXPECT_THAT(push(RowsFrame({kRow1}, 1), {.compression = Compression::kFloat16}), HasSubstr("fp16"));
  EXPECT_THAT(push(RowsFrame({kRow1}, 1), {.parts = {{{0, 0}, 1, true}}}), HasSubstr("without a value"));
  EXPECT_THAT(Refusal(Pull(0, 0, {33})), HasSubstr("row 33 is of part 1"));
  EXPECT_THAT(Refusal(harness_.Deliver(0, wire::PullRows{{{{0, 99}, 0, 0}}}, {IdFrame({})})),
              HasSubstr("part 99"));
  EXPECT_THAT(Refusal(harness_.Deliver(0, wire::Pull{.parts = {{{0, 0}, 0, 0}}})), HasSubstr("row-sparse"));
  EXPECT_THAT(Refusal(harness_.Deliver(0, wire::Pull{.parts = {{{0, 0}, 1, 0}}})), HasSubstr("row-sparse"));
  EXPECT_THAT(
      Refusal(harness_.Deliver(0, wire::Store{wire::Store::Purpose::kInit, {{{0, 0}, 0, 0}}}, {Frame()})),
      HasSubstr("row-sparse"));
  const auto store = [&](wire::Store::Purpose purpose, uint32_t slot, Frame frame) {
    return Refusal(harness_.Deliver(0, wire::Store{purpose, {{{0, 0}, slot, 3}}}, {std::move(frame)}));
  };
  EXPECT_THAT(store(wire::Store::Purpose::kState, 1, Frame()), HasSubstr("its optimiser has 0"));
  EXPECT_THAT(store(wire::Store::Purpose::kState, 0, IdFrame({kRow1})),
              HasSubstr("8 bytes came with a number"));
  EXPECT_THAT(store(wire::Store::Purpose::kRows, 0, RowsFrame({33}, 1)), HasSubstr("row 33 is of part 1"));
  EXPECT_THAT(Refusal(harness_.Deliver(0, wire::PullRows{{{{0, 0}, 1, 0}}}, {IdFrame({kRow1})})),
              HasSubstr("state 1 was asked for, the optimiser has 0"));
  EXPECT_THAT(Refusal(harness_.Deliver(0, wire::GetRowIds{{7, 0}, 0})), HasSubstr("no key with id 7"));
  EXPECT_FALSE(harness_.shard.SetOptimizer({.kind = OptimizerKind::kLamb}, {}).ok());
  const uint32_t dense = 1;
  wire::KeyEntry entry = ShardHarness::EntryOf(dense, DType::kFloat32, 4, wire::SyncMode::kSync, 4);
  ASSERT_TRUE(harness_.shard.AddKeys({entry}).ok());
  EXPECT_THAT(Refusal(harness_.Deliver(0, wire::PullRows{{{{dense, 0}, 0, 0}}}, {IdFrame({1})})),
              HasSubstr("not row-sparse"));
  EXPECT_THAT(Refusal(harness_.Deliver(0, wire::GetRowIds{{dense, 0}, 0})), HasSubstr("not row-sparse"));
  EXPECT_THAT(
      Refusal(harness_.Deliver(0, wire::Store{wire::Store::Purpose::kRows, {{{dense, 0}, 0, 0}}}, {Frame()})),
      HasSubstr("not row-sparse"));
  Push(0, 1, {}, 0);
  Push(1, 1, {}, 0);
  EXPECT_THAT(RowsIn(Pull(0, 1, {kRow1})), ElementsAre(1, 1));
}

TEST_F(ShardRows, RowsAndStatesThatAreStoredAreListedAndAnswered) {
  ASSERT_TRUE(harness_.shard.SetOptimizer({.kind = OptimizerKind::kSgd, .momentum = 0.5}, {}).ok());
  const auto listed = [&](uint64_t first) {
    const auto answers = harness_.Deliver(0, wire::GetRowIds{{0, 0}, first});
    return answers.at(0).As<wire::RowIds>();
  };
  const auto store = [&](wire::Store::Purpose purpose, uint32_t slot, Frame frame) {
    const auto answers = harness_.Deliver(0, wire::Store{purpose, {{{0, 0}, slot, 7}}}, {std::move(frame)});
    return answers.at(0).Is<wire::Ack>();
  };
  EXPECT_EQ(listed(0), wire::RowIds{});
  EXPECT_TRUE(store(wire::Store::Purpose::kRows, 0, RowsFrame({kRow3, kRow4}, 9)));
  EXPECT_TRUE(store(wire::Store::Purpose::kState, 0, Frame()));
  EXPECT_TRUE(store(wire::Store::Purpose::kState, 1, RowsFrame({kRow1, kRow3}, 4)));
  const auto three_of_which = [](const std::vector<int64_t>& rows) {
    return wire::RowIds{3, {rows.begin(), rows.end()}};
  };
  EXPECT_EQ(listed(0), three_of_which({kRow3, kRow4, kRow1}));
  EXPECT_EQ(listed(2), three_of_which({kRow1}));
  EXPECT_EQ(listed(UINT64_MAX), three_of_which({}));
  EXPECT_THAT(RowsIn(Pull(0, 0, {kRow1, kRow3, kRow4})), ElementsAre(1, 1, 9, 9, 9, 9));
  const auto states =
      harness_.Deliver(0, wire::PullRows{{{{0, 0}, 1, 0}}}, {IdFrame({kRow1, kRow2, kRow3, kRow4})});
  EXPECT_THAT(RowsIn(states), ElementsAre(4, 4, 0, 0, 4, 4, 0, 0));
  EXPECT_EQ(states.at(0).As<wire::Values>().parts[0].version, 7u);
}

TEST_F(ShardRows, ALateRepeatOfAStoreUndoesNothing) {
  wire::Message store;
  store.sender = {wire::Role::kWorker, 0, 1000};
  store.id = 500;
  store.body = wire::Store{wire::Store::Purpose::kRows, {{{0, 0}, 0, 0}}};
  store.payload = {RowsFrame({kRow1}, 5)};
  harness_.DeliverRaw(ShardHarness::PeerOf(0), store);
  Push(0, 1, {kRow1}, 1);
  Push(1, 1, {}, 0);
  harness_.DeliverRaw(ShardHarness::PeerOf(0), store);
  EXPECT_THAT(RowsIn(Pull(0, 1, {kRow1})), ElementsAre(6, 6));
}

TEST_F(ShardRows, AnAnswerThatNoFrameHoldsIsRefused) {
  plan::Placement placement({.num_shards = 1});
  const wire::KeyEntry wide = placement.EntryOf(
      1, {"wide", DType::kFloat32, {32 * 20, 1 << 18}, 0, RowInit()}, wire::SyncMode::kSync);
  ASSERT_TRUE(harness_.shard.AddKeys({wide}).ok());
  const auto pull = [&](int64_t rows) {
    return harness_.Deliver(0, wire::PullRows{{{{1, 0}, 0, 0}}}, {IdFrame(IdsOfPartZero(rows))});
  };
  const auto largest = pull(8);
  ASSERT_THAT(largest, SizeIs(1));
  EXPECT_EQ(largest[0].message.payload[0].size(), wire::kMostFrameBytes);
  EXPECT_THAT(Refusal(pull(9)), HasSubstr("the rows have 9437184 bytes; a frame has at most 8388608"));
}

// The ids of waiting pulls are kept: their bytes are bounded, and not their number alone.
TEST_F(ShardRows, ThePullsThatWaitKeepSoManyIdsAndNoMore) {
  constexpr int64_t kIds = wire::kMostFrameBytes / sizeof(int64_t);
  plan::Placement placement({.num_shards = 1});
  const wire::KeyEntry narrow = placement.EntryOf(
      1, {"narrow", DType::kUInt8, {32 * kIds, 1}, 0, RowInit::Constant(3)}, wire::SyncMode::kSync);
  ASSERT_TRUE(harness_.shard.AddKeys({narrow}).ok());
  const Frame ids = IdFrame(IdsOfPartZero(kIds));
  const auto pull = [&](const Frame& wanted) {
    return harness_.Deliver(0, wire::PullRows{{{{1, 0}, 0, 1}}}, {wanted});
  };
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(pull(ids).empty());
  EXPECT_THAT(Refusal(pull(IdFrame({kRow1}))),
              AllOf(HasSubstr("keep 67108864 bytes of row ids already, and 8 more came; at most 67108864"),
                    HasSubstr("pull fewer rows")));
  // A repeat takes the place of what it repeats.
  wire::Message again;
  again.sender = {wire::Role::kWorker, 0, 1000};
  again.id = harness_.last_id - 1;
  again.body = wire::PullRows{{{{1, 0}, 0, 1}}};
  again.payload = {ids};
  EXPECT_TRUE(harness_.DeliverRaw(ShardHarness::PeerOf(0), again).empty());
  for (const uint32_t worker : {0u, 1u})
    harness_.Deliver(worker, wire::Push{.parts = {{{1, 0}, 1, false}}}, {Frame()});
  EXPECT_THAT(pull(IdFrame({kRow1})), SizeIs(1)) << "the round has closed";
}

TEST_F(AsyncShardRows, APushAppliesAsAWhole) {
  wire::Push half;
  half.parts = {{{0, 0}, 1, false}};
  harness_.Deliver(0, half, {RowsFrame({kRow1}, 2)});
  EXPECT_THAT(RowsIn(Pull(1, 0, {kRow1})), ElementsAre(1, 1));
  EXPECT_TRUE(Pull(0, 1, {kRow1}).empty());
  wire::Push rest;
  wire::Frames frames;
  const int64_t beside = kRow1 + (kRow1 % kParts == 0 ? 1 : -1);
  for (uint32_t part = 1; part < 32; ++part) {
    rest.parts.push_back({{0, part}, 1, false});
    frames.push_back(part == plan::PlacesOf(entry_).PartOf(beside) ? RowsFrame({beside}, 7) : Frame());
  }
  harness_.Deliver(0, rest, std::move(frames));
  EXPECT_THAT(RowsIn(Pull(1, 0, {kRow1})), ElementsAre(3, 3));
}

}  // namespace
}  // namespace sluice::testing
