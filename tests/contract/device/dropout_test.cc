// The device contract of dropout: the mask is, bit by bit, what Philox 4x32-10 says, however the batch is cut
// and wherever the channels lie; the other elements are scaled. Philox is written here anew from its paper.
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "contract/device/device_test.h"

namespace sluice::testing {
namespace {

using Words = std::array<uint32_t, 4>;

// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"): ten rounds
// of two products of 32 bits, whose halves are mixed with the key; the key grows by a constant after each.
Words PhiloxOf(uint64_t low, uint64_t high, uint64_t key) {
  uint64_t r0 = low & 0xffffffff, l0 = low >> 32, r1 = high & 0xffffffff, l1 = high >> 32;
  uint64_t k0 = key & 0xffffffff, k1 = key >> 32;
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = 0xD2511F53ull * r0, second = 0xCD9E8D57ull * r1;
    r0 = (second >> 32) ^ l0 ^ k0;
    l0 = second & 0xffffffff;
    r1 = (first >> 32) ^ l1 ^ k1;
    l1 = first & 0xffffffff;
    k0 = (k0 + 0x9E3779B9) & 0xffffffff;  // the golden ratio
    k1 = (k1 + 0xBB67AE85) & 0xffffffff;  // the square root of 3, less 1
  }
  return {static_cast<uint32_t>(r0), static_cast<uint32_t>(l0), static_cast<uint32_t>(r1),
          static_cast<uint32_t>(l1)};
}

// The answers come from the authors' library Random123, file kat_vectors.
TEST(PhiloxOfThisTest, GivesThePublishedAnswers) {
  constexpr uint64_t kOnes = ~uint64_t{0};
  EXPECT_EQ(PhiloxOf(0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(PhiloxOf(kOnes, kOnes, kOnes), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(PhiloxOf(0x85a308d3243f6a88, 0x0370734413198a2e, 0x299f31d0a4093822),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

uint32_t WordOf(const DropoutShape& s, int64_t row, int64_t column) {
  const Words words =
      PhiloxOf(static_cast<uint64_t>(column / 4), s.first_sample + static_cast<uint64_t>(row), s.key);
  return words[static_cast<size_t>(column % 4)];
}

std::vector<uint8_t> MaskOf(const DropoutShape& s) {
  std::vector<uint8_t> kept;
  for (int64_t row = 0; row < s.rows; ++row)
    for (int64_t column = 0; column < s.columns; ++column)
      kept.push_back(WordOf(s, row, column) < s.threshold ? 0 : 1);
  return kept;
}

// Returns x with the elements scaled that `kept` keeps, and zeros for the others. A product of two floats is
// exact in float64, so the device has to find these very bits.
std::vector<float> Masked(const DropoutShape& s, const std::vector<uint8_t>& kept,
                          const std::vector<float>& x) {
  std::vector<float> out(x.size());
  const int64_t size = s.columns / s.channels_last;
  for (int64_t row = 0; row < s.rows; ++row)
    for (int64_t pixel = 0; pixel < size; ++pixel)
      for (int64_t channel = 0; channel < s.channels_last; ++channel) {
        const auto at = static_cast<size_t>(row * s.columns + pixel * s.channels_last + channel);
        const auto in_mask = static_cast<size_t>(row * s.columns + channel * size + pixel);
        if (kept[in_mask] == 1) out[at] = static_cast<float>(double{x[at]} * s.scale);
      }
  return out;
}

std::string NameOf(const DropoutShape& s) {
  return std::to_string(s.rows) + " x " + std::to_string(s.columns) + ", " + std::to_string(s.channels_last) +
         " channels last, threshold " + std::to_string(s.threshold) + ", samples from " +
         std::to_string(s.first_sample);
}

class DeviceDropout : public DeviceTest {
 protected:
  // Tries Dropout for the shape, and DropoutBackward with another mask, which no generator has made.
  void Try(const DropoutShape& s) {
    SCOPED_TRACE(NameOf(s));
    Clear();
    const int64_t n = s.rows * s.columns;
    const std::vector<float> x = Uniform(n), grad = Uniform(n);
    const auto mask = Whole<uint8_t>(n, 0, 1);
    const float *const px = Input(x), *const pg = Input(grad);
    const uint8_t* const pm = Input(mask);
    float *const out = Output<float>(n), *const grad_x = Output<float>(n);
    uint8_t* const kept = Output<uint8_t>(n);
    Run([&](Kernels& k) {
      k.Dropout({.shape = s, .x = px, .out = out, .kept = kept});
      k.DropoutBackward({.shape = s, .kept = pm, .grad = pg, .grad_x = grad_x});
    });
    const std::vector<uint8_t> expected = MaskOf(s);
    EXPECT_TRUE(Read(kept) == expected) << "another mask";
    EXPECT_TRUE(Read(out) == Masked(s, expected, x)) << "other results";
    EXPECT_TRUE(Read(grad_x) == Masked(s, mask, grad)) << "other gradients";
  }
  // Returns the mask of a shape by the device.
  std::vector<uint8_t> DevicesMask(const DropoutShape& s) {
    Clear();
    const float* const px = Input(Uniform(s.rows * s.columns));
    float* const out = Output<float>(s.rows * s.columns);
    uint8_t* const kept = Output<uint8_t>(s.rows * s.columns);
    Run([&](Kernels& k) { k.Dropout({.shape = s, .x = px, .out = out, .kept = kept}); });
    return Read(kept);
  }
};
SLUICE_ON_EVERY_DEVICE(DeviceDropout);

TEST_P(DeviceDropout, DropsWhatPhiloxSaysForEveryShape) {
  for (const int64_t rows : {0, 1, 2, 7, 40})
    for (const int64_t columns : {0, 1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 129, 1000})
      Try({.rows = rows,
           .columns = columns,
           .key = rng().Next(),
           .first_sample = rng().Next() >> 1,
           .threshold = static_cast<uint32_t>(rng().Next()),
           .scale = 1.25f});
}

TEST_P(DeviceDropout, DropsWhatPhiloxSaysForImagesWithTheirChannelsLast) {
  for (const int64_t rows : {0, 1, 3, 20})
    for (const int64_t channels : {2, 3, 4, 5, 16, 33, 64})
      for (const int64_t size : {1, 2, 7, 49, 100})
        Try({.rows = rows,
             .columns = channels * size,
             .key = rng().Next(),
             .first_sample = rng().Next() >> 40,
             .threshold = 0x70000000,
             .scale = 1.75f,
             .channels_last = channels});
}

TEST_P(DeviceDropout, DropsWhatPhiloxSaysInArraysForManyThreads) {
  Try({.rows = 5, .columns = 40'003, .key = 17, .threshold = 0x80000000, .scale = 2});
  Try({.rows = 30'001, .columns = 3, .key = 18, .threshold = 0x80000000, .scale = 2});
  Try({.rows = 65, .columns = 1568, .key = 19, .threshold = 0x40000000, .scale = 2, .channels_last = 32});
}

// Counters and keys are of 64 bits: the upper halves of samples and of the key matter.
TEST_P(DeviceDropout, NumbersOfSamplesPass32Bits) {
  constexpr uint64_t kEdge = uint64_t{1} << 32;
  for (const uint64_t first : {kEdge - 3, kEdge - 1, kEdge, kEdge + 1, (kEdge << 20) - 2, ~uint64_t{0} - 6})
    for (const uint64_t key : {uint64_t{0}, uint64_t{5}, kEdge, kEdge + 5, ~uint64_t{0}})
      Try({.rows = 7, .columns = 37, .key = key, .first_sample = first, .threshold = 0x80000000, .scale = 2});
}

TEST_P(DeviceDropout, Threshold0KeepsAll) {
  const DropoutShape s = {.rows = 9, .columns = 1001, .key = 3, .threshold = 0, .scale = 1};
  Try(s);
  EXPECT_EQ(DevicesMask(s), std::vector<uint8_t>(9 * 1001, 1));
}

TEST_P(DeviceDropout, TheHighestThresholdDropsAllButTheHighestWord) {
  const DropoutShape s = {.rows = 9, .columns = 1001, .key = 3, .threshold = UINT32_MAX, .scale = 0x1p31f};
  Try(s);
  EXPECT_EQ(DevicesMask(s), std::vector<uint8_t>(9 * 1001, 0));
}

// An element is dropped if its word is below the threshold, so the threshold itself is kept.
TEST_P(DeviceDropout, AWordThatIsTheThresholdKeepsItsElement) {
  for (const int64_t column : {0, 1, 2, 3, 50, 70}) {
    DropoutShape s = {.rows = 2, .columns = 71, .key = 99, .first_sample = 5};
    const auto at = static_cast<size_t>(71 + column);
    s.threshold = WordOf(s, 1, column);
    EXPECT_EQ(DevicesMask(s)[at], 1) << "column " << column;
    ++s.threshold;
    EXPECT_EQ(DevicesMask(s)[at], 0) << "column " << column;
  }
}

// A batch that is cut into pieces loses the same elements.
TEST_P(DeviceDropout, ASampleHasItsMaskInEveryBatch) {
  const DropoutShape whole = {
      .rows = 10, .columns = 67, .key = 4, .first_sample = 90, .threshold = 0x80000000};
  const std::vector<uint8_t> mask = DevicesMask(whole);
  for (int64_t row = 0; row < whole.rows; ++row) {
    DropoutShape one = whole;
    one.rows = 1;
    one.first_sample += static_cast<uint64_t>(row);
    EXPECT_TRUE(std::equal(mask.begin() + row * 67, mask.begin() + (row + 1) * 67, DevicesMask(one).begin()))
        << "row " << row;
  }
}

TEST_P(DeviceDropout, ADroppedElementIs0WhateverItWas) {
  constexpr float kInf = std::numeric_limits<float>::infinity(),
                  kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t channels : {1, 4}) {
    const DropoutShape s = {.rows = 1, .columns = 40, .scale = 2, .channels_last = channels};
    std::vector<float> grad(40, kNaN);
    for (size_t i = 0; i < grad.size(); i += 2) grad[i] = kInf;
    Clear();
    const float* const pg = Input(grad);
    const uint8_t* const kept = Input(std::vector<uint8_t>(40, 0));
    float* const grad_x = Output<float>(40);
    Run([&](Kernels& k) { k.DropoutBackward({.shape = s, .kept = kept, .grad = pg, .grad_x = grad_x}); });
    EXPECT_EQ(Read(grad_x), std::vector<float>(40, 0.0f)) << channels << " channels last";
  }
}

}  // namespace
}  // namespace sluice::testing
