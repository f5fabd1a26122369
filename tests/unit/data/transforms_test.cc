// Tests sluice/transforms.h: each transform's formula, and that samples are the same on any number of threads
// and workers. Resizing is compared with PyTorch's (tests/golden/images).
#include "sluice/transforms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "base/rng.h"
#include "sluice/data_loader.h"
#include "sluice/error.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using namespace transforms;  // NOLINT(google-build-using-namespace)

std::vector<float> Counting(int64_t size) {
  std::vector<float> values(static_cast<size_t>(size));
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

std::vector<float> Apply(const TransformPtr& transform, const Shape& shape, const std::vector<float>& input,
                         uint64_t seed = 0) {
  std::vector<float> output(static_cast<size_t>(transform->OutputShape(shape).size()), -99.0f);
  transform->Apply(shape, input, output, seed);
  return output;
}

std::string WhyTransformRefused(const TransformPtr& transform, const Shape& shape) {
  return ErrorOf(ErrorCode::kInvalidArgument, [&] { transform->OutputShape(shape); });
}

TEST(Transforms, ScaleAndNormalize) {
  EXPECT_EQ(Apply(Scale(0.5f), {3}, {2, -4, 1}), (std::vector<float>{1, -2, 0.5f}));
  EXPECT_EQ(Apply(Normalize({1, 2}, {2, 4}), {2, 1, 2}, {1, 3, 2, 10}), (std::vector<float>{0, 1, 0, 2}));
  EXPECT_EQ(Apply(Normalize({1}, {2}), {2, 2}, {1, 3, 5, 7}), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(Apply(Normalize({1}, {2}), {}, {5}), (std::vector<float>{2}));
  EXPECT_THAT(WhyTransformRefused(Normalize({1, 2}, {1, 1}), {3, 4, 4}),
              HasSubstr("the means are of 2 channels"));
}

TEST(Transforms, CenterCropCutsTheMiddle) {
  // 1 2 3 4 / 5 6 7 8 / 9 10 11 12
  EXPECT_EQ(Apply(CenterCrop(1, 2), {1, 3, 4}, Counting(12)), (std::vector<float>{6, 7}));
  EXPECT_EQ(Apply(CenterCrop(2, 1), {1, 3, 4}, Counting(12)), (std::vector<float>{2, 6}));  // rounded down
  EXPECT_EQ(Apply(CenterCrop(1, 1), {2, 1, 3}, Counting(6)), (std::vector<float>{2, 5}));
  EXPECT_EQ(Apply(CenterCrop(3, 4), {1, 3, 4}, Counting(12)), Counting(12));
  EXPECT_THAT(WhyTransformRefused(CenterCrop(4, 4), {1, 3, 4}), HasSubstr("does not fit into [1, 3, 4]"));
  EXPECT_THAT(WhyTransformRefused(CenterCrop(1, 1), {4}), HasSubstr("expected [channels, height, width]"));
}

TEST(Transforms, RandomCropTakesEveryWindowOfThePaddedImageEquallyOften) {
  const Shape shape{2, 2, 3};
  const std::vector<float> input = Counting(12);
  std::map<std::vector<float>, int> seen;
  constexpr int kDraws = 5000;
  for (int i = 0; i < kDraws; ++i) ++seen[Apply(RandomCrop(2, 2, 1, 0.5f), shape, input, DeriveSeed(3, i))];
  // The padded image has 4 x 5 pixels: 3 x 4 windows.
  std::map<std::vector<float>, int> expected;
  for (int top = -1; top <= 1; ++top) {
    for (int left = -1; left <= 2; ++left) {
      std::vector<float> window;
      for (int c = 0; c < 2; ++c) {
        for (int y = top; y < top + 2; ++y) {
          for (int x = left; x < left + 2; ++x) {
            const bool inside = y >= 0 && y < 2 && x >= 0 && x < 3;
            window.push_back(inside ? input[static_cast<size_t>(c * 6 + y * 3 + x)] : 0.5f);
          }
        }
      }
      expected[window] = kDraws / 12;
    }
  }
  ASSERT_EQ(seen.size(), expected.size());
  double chi_squared = 0;
  for (const auto& [window, count] : expected) {
    ASSERT_TRUE(seen.contains(window));
    chi_squared += (seen[window] - count) * (seen[window] - count) / static_cast<double>(count);
  }
  EXPECT_LT(chi_squared, 38.0);  // 11 degrees of freedom: 0.01 % of fair draws exceed it
}

TEST(Transforms, RandomCropLargerThanTheImageShowsPadding) {
  EXPECT_EQ(Apply(RandomCrop(3, 3, 1), {1, 1, 1}, {7}), (std::vector<float>{0, 0, 0, 0, 7, 0, 0, 0, 0}));
  EXPECT_THAT(WhyTransformRefused(RandomCrop(5, 5, 1), {1, 2, 3}), HasSubstr("with a padding of 1"));
}

TEST(Transforms, RandomHorizontalFlipTurnsRowsRound) {
  const auto flipped = std::vector<float>{3, 2, 1, 6, 5, 4};
  EXPECT_EQ(Apply(RandomHorizontalFlip(1), {1, 2, 3}, Counting(6)), flipped);
  EXPECT_EQ(Apply(RandomHorizontalFlip(0), {1, 2, 3}, Counting(6)), Counting(6));
  int count = 0;
  for (int i = 0; i < 2000; ++i)
    count += Apply(RandomHorizontalFlip(0.25), {1, 2, 3}, Counting(6), DeriveSeed(1, i)) == flipped;
  EXPECT_NEAR(count, 500, 97);  // five standard deviations
}

// tests/golden/images/resized.txt, from PyTorch.
TEST(Transforms, ResizeIsPyTorchs) {
  std::ifstream file(SLUICE_SOURCE_DIR "/tests/golden/images/resized.txt");
  int cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    std::istringstream words(line);
    int64_t height = 0, width = 0, new_height = 0, new_width = 0;
    int antialias = 0;
    words >> height >> width >> new_height >> new_width >> antialias;
    std::vector<float> before(static_cast<size_t>(height * width)),
        after(static_cast<size_t>(new_height * new_width));
    for (float& value : before) words >> value;
    for (float& value : after) words >> value;
    ASSERT_TRUE(words) << line;
    const auto found = Apply(Resize(new_height, new_width, antialias == 1), {1, height, width}, before);
    for (size_t i = 0; i < after.size(); ++i) EXPECT_NEAR(found[i], after[i], 2e-6) << line << " value " << i;
  }
  EXPECT_EQ(cases, 12);
}

TEST(Transforms, ResizeTakesEveryChannelAlone) {
  const Shape shape{3, 5, 4};
  std::vector<float> input = Counting(60);
  const auto all = Apply(Resize(2, 7), shape, input);
  for (size_t c = 0; c < 3; ++c) {
    const std::vector<float> plane(input.begin() + static_cast<ptrdiff_t>(c * 20),
                                   input.begin() + static_cast<ptrdiff_t>(c * 20 + 20));
    const auto one = Apply(Resize(2, 7), {1, 5, 4}, plane);
    EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + static_cast<ptrdiff_t>(c * 14)));
  }
}

TEST(Transforms, ComposedOnesRunInOrderWithSeedsOfTheirOwn) {
  const auto both = Compose({CenterCrop(1, 2), Scale(10), Normalize({60}, {10})});
  EXPECT_EQ(both->OutputShape({1, 3, 4}), (Shape{1, 1, 2}));
  EXPECT_EQ(Apply(both, {1, 3, 4}, Counting(12)), (std::vector<float>{0, 1}));
  EXPECT_EQ(Apply(Compose({}), {3}, Counting(3)), Counting(3));
  int different = 0;  // two flips in one chain draw independently
  for (int i = 0; i < 200; ++i)
    different += Apply(Compose({RandomHorizontalFlip(), RandomHorizontalFlip()}), {1, 1, 2}, {1, 2},
                       DeriveSeed(9, i)) == std::vector<float>{2, 1};
  EXPECT_NEAR(different, 100, 36);
}

TEST(Transforms, ArgumentsOutOfRangeAreRefused) {
  const auto refused = [](const auto& call) { return ErrorOf(ErrorCode::kInvalidArgument, call); };
  EXPECT_THAT(refused([] { Compose({nullptr}); }), HasSubstr("part 0 is null"));
  EXPECT_THAT(refused([] { Scale(NAN); }), HasSubstr("factor"));
  EXPECT_THAT(refused([] { Normalize({}, {}); }), HasSubstr("0 means"));
  EXPECT_THAT(refused([] { Normalize({1, 2}, {1}); }), HasSubstr("2 means and 1 standard"));
  EXPECT_THAT(refused([] { Normalize({1}, {0}); }), HasSubstr("standard deviation 0"));
  EXPECT_THAT(refused([] { RandomCrop(0, 1); }), HasSubstr("at least 1"));
  EXPECT_THAT(refused([] { RandomCrop(1, 1, -1); }), HasSubstr("padding is -1"));
  EXPECT_THAT(refused([] { Resize(1, -1); }), HasSubstr("width -1"));
  EXPECT_THAT(refused([] { RandomHorizontalFlip(1.5); }), HasSubstr("probability is 1.5"));
  const auto data = std::make_shared<ArrayDataset>(Shape{4}, Counting(4), std::vector<int32_t>{0});
  EXPECT_THAT(refused([&] { Transformed(data, CenterCrop(1, 1)); }), HasSubstr("samples have the shape [4]"));
  EXPECT_THAT(refused([&] { Transformed(data, nullptr); }), HasSubstr("no transform"));
  EXPECT_THAT(refused([&] { Transformed(nullptr, Scale(1)); }), HasSubstr("no dataset"));
}

// 40 images of 1 x 4 x 4, all pixels of image i different from those of any other.
std::shared_ptr<const Dataset> Pictures() {
  std::vector<int32_t> labels;
  for (int32_t i = 0; i < 40; ++i) labels.push_back(i % 3);
  return std::make_shared<ArrayDataset>(Shape{1, 4, 4}, Counting(640), labels);
}
TransformPtr Augmentation() {
  return Compose({RandomCrop(4, 4, 2), RandomHorizontalFlip(), Scale(2)});
}

TEST(Transforms, MoreThanAnyImageHasIsRefused) {
  for (const auto& make : {+[](int64_t side) { return Resize(side, side); },
                           +[](int64_t side) { return RandomCrop(side, side); },
                           +[](int64_t side) { return CenterCrop(1, side); }}) {
    const std::string why = ErrorOf(ErrorCode::kInvalidArgument, [&] { make(int64_t{1} << 31); });
    EXPECT_THAT(why, HasSubstr("width 2147483648 must be at least 1 and make at most 268435456 pixels"));
  }
}

TEST(TransformedTest, TheShapeIsKnownBeforeTheFirstSample) {
  EXPECT_EQ(Transformed(Pictures(), Resize(2, 3))->sample_shape(), (Shape{1, 2, 3}));
}

TEST(TransformedTest, ASampleIsAFunctionOfSeedEpochAndIndex) {
  const auto data = Transformed(Pictures(), Augmentation(), 5);
  const auto draw = [](const Dataset& from, int64_t epoch, int64_t index) {
    std::vector<float> sample(16);
    from.GetInEpoch(epoch, index, sample);
    return sample;
  };
  std::set<std::vector<float>> seen;
  for (int64_t epoch = 0; epoch < 30; ++epoch) {
    EXPECT_EQ(draw(*data, epoch, 7), draw(*Transformed(Pictures(), Augmentation(), 5), epoch, 7));
    seen.insert(draw(*data, epoch, 7));
  }
  EXPECT_GT(seen.size(), 10u);  // 50 are possible
  EXPECT_NE(draw(*data, 0, 7), draw(*Transformed(Pictures(), Augmentation(), 6), 0, 7));
  std::vector<float> sample(16);
  EXPECT_EQ(data->Get(7, sample), 1);
  EXPECT_EQ(sample, draw(*data, 0, 7));
  // Views do not lose the epoch.
  EXPECT_EQ(draw(*Take(data, 10), 3, 7), draw(*data, 3, 7));
  EXPECT_EQ(draw(*Select(data, {9, 7}), 3, 1), draw(*data, 3, 7));
  EXPECT_EQ(draw(*Concat({Take(data, 4), data}), 3, 11), draw(*data, 3, 7));
  EXPECT_EQ(draw(*Transformed(data, Compose({})), 3, 7), draw(*data, 3, 7));
}

TEST(TransformedTest, BatchesAreTheSameOnAnyNumberOfThreadsAndWorkers) {
  const auto data = Transformed(Pictures(), Augmentation(), 1);
  DataLoader one(data, {.batch_size = 12, .seed = 4});
  std::vector<Batch> expected;
  for (int i = 0; i < 12; ++i) expected.push_back(one.Next().value());
  EXPECT_NE(expected[0].samples, expected[4].samples);
  for (const int threads : {1, 2, 5}) {
    std::vector<std::unique_ptr<DataLoader>> workers;
    for (int64_t rank = 0; rank < 3; ++rank) {
      workers.push_back(std::make_unique<DataLoader>(
          data, DataLoaderOptions{
                    .batch_size = 4, .seed = 4, .share = {rank, 3}, .num_threads = threads, .prefetch = 7}));
    }
    for (const Batch& whole : expected) {
      std::vector<float> joined;
      for (auto& worker : workers) {
        const Batch part = worker->Next().value();
        joined.insert(joined.end(), part.samples.begin(), part.samples.end());
      }
      EXPECT_EQ(joined, whole.samples) << "with " << threads << " threads";
    }
  }
  DataLoader resumed(data, {.batch_size = 12, .seed = 4, .num_threads = 2});
  resumed.Seek(expected[9].position);
  EXPECT_EQ(resumed.Next()->samples, expected[9].samples);
}

}  // namespace
}  // namespace sluice
