// Tests sluice/synthetic.h: synthetic pictures and texts are functions of seed, subset and index, with even
// classes.
#include "sluice/synthetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "sluice/error.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

TEST(SyntheticPicturesTest, ASampleIsAFunctionOfSeedSubsetAndIndex) {
  const auto few = SyntheticPictures(Subset::kTrain, 4, 20);
  const auto more = SyntheticPictures(Subset::kTrain, 4, 60);
  EXPECT_EQ(few->sample_shape(), (Shape{3, 32, 32}));
  EXPECT_EQ(few->num_classes(), 10);
  const auto other = SyntheticPictures(Subset::kTrain, 5, 20), test = SyntheticPictures(Subset::kTest, 4, 20);
  for (int64_t i = 0; i < few->size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(few->pixels(i), more->pixels(i))) << i;
    EXPECT_EQ(few->Label(i), more->Label(i));
    EXPECT_FALSE(std::ranges::equal(few->pixels(i), other->pixels(i)));
    EXPECT_FALSE(std::ranges::equal(few->pixels(i), test->pixels(i)));
  }
}

// Backgrounds run from one random colour to another, so opposite corners differ far more than neighbours do,
// which differ by noise alone; the first pixel of a channel is like its neighbour.
TEST(SyntheticPicturesTest, BackgroundsChangeAcrossThePictureAndNotBetweenNeighbours) {
  const auto pictures = SyntheticPictures(Subset::kTrain, 3, 600);
  double corners = 0, neighbours[3] = {};
  for (int64_t i = 0; i < pictures->size(); ++i) {
    for (size_t channel = 0; channel < 3; ++channel) {
      const auto pixels = pictures->pixels(i).subspan(channel * 1024, 1024);
      const auto at = [&](size_t row, size_t column) { return pixels[row * 32 + column] / 600.0; };
      corners += std::max(std::abs(at(1, 1) - at(30, 30)), std::abs(at(1, 30) - at(30, 1))) / 3;
      neighbours[channel] += std::abs(at(0, 0) - at(0, 1));
    }
  }
  EXPECT_GT(corners, 50);
  for (const double apart : neighbours) EXPECT_LT(apart, 25);
}

TEST(SyntheticPicturesTest, ClassesAreEvenAndTheirMeansAlike) {
  const auto pictures = SyntheticPictures(Subset::kTrain, 0, 4000);
  std::array<double, 10> counts{}, sums{};
  for (int64_t i = 0; i < pictures->size(); ++i) {
    const auto label = static_cast<size_t>(pictures->Label(i));
    ++counts[label];
    for (const uint8_t value : pictures->pixels(i)) sums[label] += value / 255.0 / 3072;
  }
  for (size_t c = 0; c < 10; ++c) {
    EXPECT_NEAR(counts[c], 400, 95) << c;  // five standard deviations
    EXPECT_NEAR(sums[c] / counts[c], 0.5, 0.05) << c;
  }
}

TEST(SyntheticTextTest, ATextIsWordsAndThenPadding) {
  const auto texts = SyntheticText(Subset::kTrain, 1, 500);
  EXPECT_EQ(texts->sample_shape(), (Shape{kSyntheticTextLength}));
  EXPECT_EQ(texts->num_classes(), 4);
  std::set<int64_t> lengths;
  for (int64_t i = 0; i < texts->size(); ++i) {
    const auto text = texts->sample(i);
    const auto words = std::find(text.begin(), text.end(), static_cast<float>(kPaddingToken)) - text.begin();
    lengths.insert(words);
    EXPECT_TRUE(std::all_of(text.begin() + words, text.end(), [](float t) { return t == kPaddingToken; }));
    for (const float word : text.first(static_cast<size_t>(words))) {
      EXPECT_GE(word, 1);
      EXPECT_LT(word, kSyntheticVocabulary);
      EXPECT_EQ(word, std::floor(word));
    }
  }
  EXPECT_EQ(*lengths.begin(), 8);
  EXPECT_EQ(*lengths.rbegin(), kSyntheticTextLength);
  EXPECT_EQ(lengths.size(), 17u);
}

// What synthetic.h says the class is, and that no word tells it.
TEST(SyntheticTextTest, TheClassIsTheSumOfTwoMeanings) {
  const auto texts = SyntheticText(Subset::kTest, 2, 4000);
  std::array<std::array<int, 4>, 65> seen{};  // each word with a meaning has counts, by class
  for (int64_t i = 0; i < texts->size(); ++i) {
    std::array<int, 2> meanings{-1, -1};
    for (const float token : texts->sample(i)) {
      const int word = static_cast<int>(token);
      if (word < 1 || word > 64) continue;
      const auto group = static_cast<size_t>((word - 1) / 32);
      EXPECT_EQ(meanings[group], -1) << "two words of one group";
      meanings[group] = (word - 1) / 8 % 4;
      ++seen[static_cast<size_t>(word)][static_cast<size_t>(texts->Label(i))];
    }
    EXPECT_EQ(texts->Label(i), (meanings[0] + meanings[1]) % 4);
  }
  for (size_t word = 1; word <= 64; ++word) {
    for (const int count : seen[word]) EXPECT_NEAR(count, 31.25, 28) << word;  // five standard deviations
  }
}

TEST(SyntheticTextTest, ATextIsAFunctionOfSeedSubsetAndIndex) {
  const auto few = SyntheticText(Subset::kTrain, 4, 30), more = SyntheticText(Subset::kTrain, 4, 90);
  const auto other = SyntheticText(Subset::kTrain, 5, 30), test = SyntheticText(Subset::kTest, 4, 30);
  for (int64_t i = 0; i < few->size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(few->sample(i), more->sample(i)));
    EXPECT_EQ(few->Label(i), more->Label(i));
    EXPECT_FALSE(std::ranges::equal(few->sample(i), other->sample(i)));
    EXPECT_FALSE(std::ranges::equal(few->sample(i), test->sample(i)));
  }
}

TEST(Synthetic, DefaultSizesAndBadCounts) {
  EXPECT_EQ(SyntheticPictures(Subset::kTest)->size(), kDefaultTestPictures);
  EXPECT_EQ(SyntheticText(Subset::kTrain)->size(), kDefaultTrainTexts);
  EXPECT_EQ(SyntheticText(Subset::kTest)->size(), kDefaultTestTexts);
  EXPECT_THROW(SyntheticPictures(Subset::kTest, 0, 0), Error);
  EXPECT_THROW(SyntheticText(Subset::kTest, 0, 0), Error);
  constexpr int64_t kMany = int64_t{1} << 40;                        // three thousand terabytes
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose operator new ends the process
  EXPECT_THAT(ErrorOf(ErrorCode::kResourceExhausted, [] { SyntheticPictures(Subset::kTest, 0, kMany); }),
              ::testing::HasSubstr("SyntheticPictures's 1099511627776 samples of 3072 bytes; ask for fewer"));
#endif
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [] { SyntheticDigits(Subset::kTest, 0, kMany + 1); }),
              ::testing::HasSubstr("count is 1099511627777; expected 1 to 1099511627776"));
}

}  // namespace
}  // namespace sluice
