// The device contract of copies, fills, conversions and reorderings, whose results are right in every bit.
// The expected bits come from a slow implementation of IEEE 754's formats and rounding (typed_test.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "contract/device/typed_test.h"

namespace sluice::testing {
namespace {

class DeviceCopy : public TypedDeviceTest {
 protected:
  std::vector<uint8_t> RandomBytes(int64_t n) { return Whole<uint8_t>(n, 0, 255); }
};
SLUICE_ON_EVERY_DEVICE(DeviceCopy);

// --- Copy, CopyAll and CopyBlocks ---

TEST_P(DeviceCopy, CopyWritesAnyNumberOfBytesToAnyPlaceAndNoByteBesides) {
  for (const int64_t bytes : {0, 1, 2, 3, 7, 15, 16, 17, 63, 64, 65, 1000, 4097, 100'003})
    for (int i = 0; i < 6; ++i) {
      const int64_t from_at = Below(20), to_at = Below(20);
      SCOPED_TRACE(std::to_string(bytes) + " bytes from " + std::to_string(from_at) + " to " +
                   std::to_string(to_at));
      Clear();
      const std::vector<uint8_t> from = RandomBytes(bytes + 20);
      std::vector<uint8_t> to = RandomBytes(bytes + 20);
      const uint8_t* const pf = Input(from);
      uint8_t* const pt = InOut(to);
      Run([&](Kernels& k) {
        k.Copy({.from = pf + from_at, .to = pt + to_at, .bytes = static_cast<size_t>(bytes)});
      });
      std::copy_n(from.begin() + from_at, bytes, to.begin() + to_at);
      EXPECT_TRUE(Read(pt) == to);
    }
}

TEST_P(DeviceCopy, CopyWithinAnArrayMovesWhatLayThereBefore) {
  for (const int64_t bytes : {1, 2, 16, 33, 64, 1000, 4099, 70'001})
    for (const int64_t distance : {0, 1, 2, 3, 4, 8, 15, 32, 64, 999, 4096, 69'999})
      for (const bool up : {true, false}) {
        if (distance >= bytes) continue;
        SCOPED_TRACE(std::to_string(bytes) + " bytes by " + std::to_string(distance) +
                     (up ? " up" : " down"));
        Clear();
        const std::vector<uint8_t> before = RandomBytes(bytes + distance + 5);
        const int64_t low = Below(6), high = low + distance;
        const int64_t from = up ? low : high, to = up ? high : low;
        uint8_t* const p = InOut(before);
        Run([&](Kernels& k) {
          k.Copy({.from = p + from, .to = p + to, .bytes = static_cast<size_t>(bytes)});
        });
        std::vector<uint8_t> expected = before;
        std::copy_n(before.begin() + from, bytes, expected.begin() + to);
        EXPECT_TRUE(Read(p) == expected);
      }
}

// More arrays than one launch takes, of any length and at any place, from one array to another.
TEST_P(DeviceCopy, CopyAllCopiesEachArray) {
  for (const int64_t most : {0, 1, 40, 5000, 300'000})
    for (const int64_t unit : {1, 4, 16})
      for (const int count : {0, 1, 2, 99, 250}) {
        if (most * count * unit > 2'000'000) continue;
        SCOPED_TRACE(std::to_string(count) + " arrays of up to " + std::to_string(most) + " times " +
                     std::to_string(unit) + " bytes");
        Clear();
        struct Place {
          int64_t from, to, bytes;
        };
        std::vector<Place> places;
        int64_t from_end = 0, to_end = 0;
        for (int i = 0; i < count; ++i) {
          const Place place{from_end + unit * Below(3), to_end + unit * Below(3), unit * Below(most + 1)};
          from_end = place.from + place.bytes;
          to_end = place.to + place.bytes;
          places.push_back(place);
        }
        const std::vector<uint8_t> from = RandomBytes(from_end + 1);
        std::vector<uint8_t> to = RandomBytes(to_end + 1);
        const uint8_t* const pf = Input(from);
        uint8_t* const pt = InOut(to);
        std::vector<CopyArgs> copies;
        for (const Place& place : places) {
          copies.push_back(
              {.from = pf + place.from, .to = pt + place.to, .bytes = static_cast<size_t>(place.bytes)});
          std::copy_n(from.begin() + place.from, place.bytes, to.begin() + place.to);
        }
        Run([&](Kernels& k) { k.CopyAll({.copies = copies}); });
        EXPECT_TRUE(Read(pt) == to);
      }
}

// Blocks that are read may overlap, and may all be the same one.
TEST_P(DeviceCopy, CopyBlocksLeavesTheGapsBetweenItsBlocks) {
  for (const int64_t bytes : {0, 1, 3, 4, 16, 17, 64, 100, 5000})
    for (const int64_t count : {0, 1, 2, 7, 130})
      for (int i = 0; i < 6; ++i) {
        const int64_t from_step = i == 0 ? bytes : (i == 1 ? 0 : Below(2 * bytes + 9));
        const int64_t to_step = i == 0 ? bytes : bytes + Below(21);
        SCOPED_TRACE(std::to_string(count) + " blocks of " + std::to_string(bytes) + ", steps " +
                     std::to_string(from_step) + " and " + std::to_string(to_step));
        Clear();
        const int64_t before_last = std::max<int64_t>(count - 1, 0);
        const std::vector<uint8_t> from = RandomBytes(before_last * from_step + bytes);
        std::vector<uint8_t> to = RandomBytes(before_last * to_step + bytes);
        const uint8_t* const pf = Input(from);
        uint8_t* const pt = InOut(to);
        Run([&](Kernels& k) {
          k.CopyBlocks({.from = pf,
                        .from_step = static_cast<size_t>(from_step),
                        .to = pt,
                        .to_step = static_cast<size_t>(to_step),
                        .bytes = static_cast<size_t>(bytes),
                        .count = count});
        });
        for (int64_t block = 0; block < count; ++block)
          std::copy_n(from.begin() + block * from_step, bytes, to.begin() + block * to_step);
        EXPECT_TRUE(Read(pt) == to);
      }
}

// --- Fill ---

class DeviceFill : public DeviceCopy {
 protected:
  void ExpectFilled(DType type, double value, uint64_t word, int64_t n = 37) {
    SCOPED_TRACE(std::string(Name(type)) + " " + std::to_string(n) + " times " + std::to_string(value));
    Clear();
    void* const out = InOutOf(type, n);
    Run([&](Kernels& k) { k.Fill({.dtype = type, .out = out, .value = value, .n = n}); });
    ExpectSame(type, ReadWords(type, out), Words(static_cast<size_t>(n), word));
  }
};
SLUICE_ON_EVERY_DEVICE(DeviceFill);

TEST_P(DeviceFill, AnyNumberOfElements) {
  for (const DType type : kAllDTypes)
    for (const int64_t n : {0, 1, 2, 3, 7, 8, 16, 17, 33, 1000, 70'001})
      ExpectFilled(type, 5, IsFloating(type) ? WordOf(FormatOf(type), 5) : 5, n);
}

TEST_P(DeviceFill, FloatingTypesGetTheNearestNumber) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kValues[] = {
      0, -0.0, 1, -1.5, 0.1, -1.0 / 3, 65504, 65519.999, 65520, 3.4e38, 1e39, -1e39, 1e308, kInf, -kInf,
      std::numeric_limits<double>::quiet_NaN(),
      // Subnormal numbers and halves of the least ones.
      0x1p-24, 0x1p-25, -0x1p-25, 0x1.8p-24, 0x1p-133, 0x1p-134, 0x1p-149, 0x1p-150, 0x1.8p-149, 0x1p-1074,
      // Just beside the middle of two numbers, where rounding to float32 first gives the middle.
      0x1.002p0, 0x1.0020000001p0, 0x1.01p0, 0x1.0100000001p0, 0x1.005ffffffp0, 0x1.02ffffffffp0,
      0x1.0000000000001p-25};
  for (const DType type : kFloatingTypes)
    for (const double value : kValues) ExpectFilled(type, value, WordOf(FormatOf(type), value));
}

TEST_P(DeviceFill, IntegerTypesGetTheirExtremeNumbers) {
  const auto try_values = [&](DType type, std::initializer_list<double> values) {
    for (const double value : values)
      ExpectFilled(type, value, static_cast<uint64_t>(static_cast<int64_t>(value)) & BitsOf(type));
  };
  try_values(DType::kUInt8, {0, -0.0, 1, 127, 128, 255});
  try_values(DType::kInt32, {0, -0.0, 1, -1, 16777217, -0x1p31, 0x1p31 - 1});
  try_values(DType::kInt64, {0, -0.0, 1, -1, 0x1p31, -0x1p31 - 1, 0x1p53 - 1, -0x1p63, 0x1p63 - 1024});
}

// --- Convert ---

class DeviceConvert : public DeviceCopy {
 protected:
  void Try(DType from, DType to, const Words& words) {
    Clear();
    const auto n = static_cast<int64_t>(words.size());
    const void* const pf = InputOf(from, words);
    void* const pt = InOutOf(to, n);
    Run([&](Kernels& k) { k.Convert({.from_type = from, .from = pf, .to_type = to, .to = pt, .n = n}); });
    Words expected;
    for (const uint64_t word : words) expected.push_back(WordOf(FormatOf(to), ValueOf(FormatOf(from), word)));
    ExpectSame(to, ReadWords(to, pt), expected);
  }
};
SLUICE_ON_EVERY_DEVICE(DeviceConvert);

// Calls run(from, to) for all pairs of floating types.
template <typename Run>
void ForPairs(Run&& run) {
  for (const DType from : kFloatingTypes)
    for (const DType to : kFloatingTypes) {
      SCOPED_TRACE(std::string(Name(from)) + " to " + std::string(Name(to)));
      run(from, to);
    }
}

// Adds, with both signs, the middle between number `magnitude` of `to` and the next one, and its neighbours,
// all as numbers of the wider type `from`. From the last middle on, numbers round to infinity.
void AddMiddle(Format from, Format to, uint64_t magnitude, Words* words) {
  const double low = ValueOf(to, magnitude);
  const double high =
      magnitude + 1 < to.infinity() ? ValueOf(to, magnitude + 1) : 2 * low - ValueOf(to, magnitude - 1);
  const uint64_t middle = WordOf(from, low + (high - low) / 2);
  for (const uint64_t sign : {uint64_t{0}, from.sign()})
    for (const uint64_t word : {middle - 1, middle, middle + 1}) words->push_back(sign | word);
}

TEST_P(DeviceConvert, AllNumbersOf16Bits) {
  Words all;
  for (uint64_t word = 0; word < 0x10000; ++word) all.push_back(word);
  for (const DType from : {DType::kFloat16, DType::kBFloat16})
    for (const DType to : kFloatingTypes) {
      SCOPED_TRACE(std::string(Name(from)) + " to " + std::string(Name(to)));
      Try(from, to, all);
    }
}

TEST_P(DeviceConvert, TheMiddleOfTwoNumbersGoesToTheEvenOneAndLargeNumbersToInfinity) {
  for (const DType from : {DType::kFloat32, DType::kFloat64})
    for (const DType to : {DType::kFloat16, DType::kBFloat16}) {
      SCOPED_TRACE(std::string(Name(from)) + " to " + std::string(Name(to)));
      const Format f = FormatOf(to);
      Words words;
      for (uint64_t magnitude = 0; magnitude < f.infinity(); ++magnitude)
        AddMiddle(FormatOf(from), f, magnitude, &words);
      Try(from, to, words);
    }
  const Format f = FormatOf(DType::kFloat32);
  Words words;
  for (uint64_t i = 0; i < 10'000; ++i)
    for (const uint64_t magnitude : {i, f.one_step() - 5000 + i, f.infinity() - 1 - i,
                                     rng().Below(f.one_step()), rng().Below(f.infinity())})
      AddMiddle(FormatOf(DType::kFloat64), f, magnitude, &words);
  SCOPED_TRACE("float64 to float32");
  Try(DType::kFloat64, DType::kFloat32, words);
}

TEST_P(DeviceConvert, RandomBitsAndWhatIsNoNumber) {
  ForPairs([&](DType from, DType to) {
    const Format f = FormatOf(from);
    Words words = RandomWords(from, 100'003);
    // Infinity, NaNs with only the lowest or the highest bit of their mantissa, or all bits, and both zeros.
    for (const uint64_t sign : {uint64_t{0}, f.sign()})
      for (const uint64_t word : {f.infinity(), f.infinity() + 1, f.infinity() + f.one_step() / 2,
                                  f.sign() - 1, uint64_t{0}, uint64_t{1}, f.one_step(), f.infinity() - 1})
        words.push_back(sign | word);
    Try(from, to, words);
  });
}

TEST_P(DeviceConvert, AnyNumberOfElements) {
  ForPairs([&](DType from, DType to) {
    for (int64_t n = 0; n < 70; ++n) Try(from, to, RandomWords(from, n));
  });
}

// Returns the bits of the float32 that is nearest to sign * magnitude, and of two the even one.
uint64_t FloatOfInteger(bool negative, uint64_t magnitude) {
  const int bits = std::bit_width(magnitude), dropped = std::max(bits - 24, 0);
  uint64_t steps = magnitude >> dropped;
  const uint64_t rest = magnitude - (steps << dropped), half = dropped > 0 ? uint64_t{1} << (dropped - 1) : 1;
  if (rest > half || (rest == half && steps % 2 == 1)) ++steps;
  const double value = std::ldexp(static_cast<double>(steps), dropped);
  return WordOf(FormatOf(DType::kFloat32), negative ? -value : value);
}

class DeviceConvertIntegers : public DeviceCopy {
 protected:
  // `words` are integers of the type in two's complement.
  void Try(DType from, const Words& words) {
    SCOPED_TRACE(std::to_string(words.size()) + " numbers of " + std::string(Name(from)));
    Clear();
    const auto n = static_cast<int64_t>(words.size());
    const void* const pf = InputOf(from, words);
    void* const pt = InOutOf(DType::kFloat32, n);
    Run([&](Kernels& k) {
      k.Convert({.from_type = from, .from = pf, .to_type = DType::kFloat32, .to = pt, .n = n});
    });
    Words expected;
    for (const uint64_t word : words) {
      const uint64_t sign = from == DType::kUInt8 ? 0 : (BitsOf(from) >> 1) + 1;
      const bool negative = (word & sign) != 0;
      expected.push_back(FloatOfInteger(negative, negative ? (~word & BitsOf(from)) + 1 : word));
    }
    ExpectSame(DType::kFloat32, ReadWords(DType::kFloat32, pt), expected);
  }
};
SLUICE_ON_EVERY_DEVICE(DeviceConvertIntegers);

constexpr DType kIntegerTypes[] = {DType::kInt32, DType::kInt64, DType::kUInt8};

TEST_P(DeviceConvertIntegers, AnyNumberOfElements) {
  for (const DType type : kIntegerTypes) {
    for (int64_t n = 0; n < 70; ++n) Try(type, RandomWords(type, n));
    Try(type, RandomWords(type, 100'003));
  }
}

// Beside the middle of two floats there are integers that float64 does not hold.
TEST_P(DeviceConvertIntegers, SmallNumbersExtremesAndMiddles) {
  for (const DType type : kIntegerTypes) {
    Words words;
    const uint64_t all = BitsOf(type);
    for (const uint64_t small : {0, 1, 2, 9, 127, 128, 255}) words.insert(words.end(), {small, -small & all});
    words.insert(words.end(), {all >> 1, (all >> 1) + 1, all});
    const int bits = static_cast<int>(8 * SizeOf(type));
    for (int top = 24; top < bits - 1; ++top) {
      const uint64_t middle = (uint64_t{1} << top) + (uint64_t{1} << (top - 24));
      for (const uint64_t word : {middle - 1, middle, middle + 1, middle + (uint64_t{2} << (top - 24))})
        words.insert(words.end(), {word & all, -word & all});
    }
    Try(type, words);
  }
}

// --- Reorder ---

// Elements are any bits, NaNs among them, which stay as they are.
TEST_P(DeviceCopy, ReorderMovesEveryElementToItsPlaceInTheOtherLayout) {
  constexpr struct {
    int64_t batch, channels, size;
  } kCases[] = {{0, 3, 5},    {2, 0, 5},     {2, 3, 0},     {1, 1, 1},   {3, 1, 7},
                {3, 7, 1},    {2, 3, 25},    {1, 16, 16},   {1, 17, 15}, {5, 31, 33},
                {1, 129, 49}, {4, 65, 1023}, {9, 33, 1089}, {100, 3, 1}, {1, 3, 50'003}};
  for (const auto& [batch, channels, size] : kCases)
    for (const bool channels_last : {true, false}) {
      SCOPED_TRACE(std::to_string(batch) + " x " + std::to_string(channels) + " x " + std::to_string(size) +
                   (channels_last ? " to channels last" : " to row-major"));
      Clear();
      const int64_t n = batch * channels * size;
      const auto from = Whole<uint32_t>(n, 0, 0xffffffff);
      const uint32_t* const pf = Input(from);
      float* const to = Output<float>(n);
      Run([&](Kernels& k) {
        k.Reorder({.shape = {batch, channels, size},
                   .from = reinterpret_cast<const float*>(pf),
                   .to_layout = channels_last ? ImageLayout::kChannelsLast : ImageLayout::kRowMajor,
                   .to = to});
      });
      std::vector<uint32_t> expected(from.size());
      for (int64_t image = 0; image < batch; ++image)
        for (int64_t c = 0; c < channels; ++c)
          for (int64_t at = 0; at < size; ++at) {
            const auto row_major = static_cast<size_t>((image * channels + c) * size + at);
            const auto last = static_cast<size_t>((image * size + at) * channels + c);
            expected[channels_last ? last : row_major] = from[channels_last ? row_major : last];
          }
      EXPECT_TRUE(Read(reinterpret_cast<const uint32_t*>(to)) == expected);
    }
}

}  // namespace
}  // namespace sluice::testing
