// What checkpoints remember of a run, as text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "train/memory/callback_memory.h"
#include "train/memory/epoch_sums.h"
#include "unit/expect_error.h"

namespace sluice::train {
namespace {

using ::testing::HasSubstr;

TEST(Memory, OfSumsIsReadAgainToTheLastBit) {
  const EpochSums sums = EpochSums::Parse(EpochSums{0.1 + 0.2, 63, 64, 64, "accuracy"}.ToText());
  EXPECT_EQ(sums.loss, 0.1 + 0.2);
  EXPECT_EQ(sums.score, 63);
  EXPECT_EQ(sums.samples, 64);
  EXPECT_TRUE(std::isnan(EpochSums::Parse(EpochSums{std::nan(""), 0, 64}.ToText()).loss));
  const EpochSums other = EpochSums::Parse(EpochSums{1, -2.5, 64, 128, "of two words"}.ToText());
  EXPECT_EQ(other.score, -2.5);
  EXPECT_EQ(other.scored, 128);
  EXPECT_EQ(other.metric, "of two words");
  EXPECT_EQ(EpochSums::Parse("0x1p+0 0x1p+0 5").metric, "accuracy");  // before there were others
}

TEST(Memory, OfSumsThatNoRunHasIsRefused) {
  for (const char* text :
       {"", "1", "1 2", "1 2 x", "1 2 3 4", "x 1 5", "1 -1 5", "1 6 5", "1 nan 5", "1 2 -1", "1 2 3 -1 mae"})
    EXPECT_THAT(ErrorOf(ErrorCode::kDataLoss, [&] { EpochSums::Parse(text); }), HasSubstr(text)) << text;
}

TEST(Memory, OfTheBestIsReadAgain) {
  const auto best = Best::Parse(Best{0.1 + 0.2, 4}.ToText());
  ASSERT_TRUE(best);
  EXPECT_EQ(best->score, 0.1 + 0.2);
  EXPECT_EQ(best->evaluations_since, 4);
  ASSERT_TRUE(Best::Parse(Best().ToText()));
  EXPECT_EQ(Best::Parse(Best().ToText())->score, Best().score);
  const auto error = Best::Parse(Best{-12.5, 3, "rmse of it"}.ToText());
  ASSERT_TRUE(error);
  EXPECT_EQ(error->score, -12.5);
  EXPECT_EQ(error->metric, "rmse of it");
  for (const char* text : {"", "0.5", "0.5 x", "1.5 0", "nan 0", "inf 0", "-0.1 0", "0.5 -1", "nan 0 mae"})
    EXPECT_FALSE(Best::Parse(text)) << text;
}

TEST(Memory, OfPositionsIsReadAgain) {
  const std::deque<Position> positions = {{0, 5}, {3, 0}};
  EXPECT_EQ(ToText(positions), "0:5 3:0");
  EXPECT_EQ(ParsePositions("0:5 3:0"), positions);
  EXPECT_EQ(ParsePositions(""), std::deque<Position>());
  for (const char* text : {" ", "1", "1:", "1:2:3", "-1:2", "1:-2", "1:2  1:3"})
    EXPECT_FALSE(ParsePositions(text)) << text;
}

}  // namespace
}  // namespace sluice::train
