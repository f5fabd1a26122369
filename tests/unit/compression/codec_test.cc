// Tests compression/codec.h: what each encoding sends and which residual it keeps. Bytes are compared with
// those written in docs/design/compression.md, values with the formulas in float64.
#include "compression/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/rng.h"
#include "tensor/types/half.h"

namespace sluice::compression {
namespace {

using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr size_t kSizes[] = {1, 7, 8, 15, 16, 17, 63, 100, 1024, 1031, 2048, 2049, 5003};

std::vector<float> Normals(Rng& rng, size_t n, double scale = 1) {
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(scale * rng.Normal());
  return values;
}

// One worker's key of one part: what it pushes, as the server gets it, at an odd address.
class Sender {
 public:
  Sender(GradientCompression how, size_t n, DType dtype = DType::kFloat32)
      : residual(n), how_(how), dtype_(dtype) {}

  void Push(const std::vector<float>& gradient) { PushBytes(gradient.data(), gradient.size()); }
  template <typename T>
  void PushBytes(const T* gradient, size_t n) {
    frame_.assign(1 + EncodedBytes(how_, dtype_, n), std::byte{0xee});
    Encode(how_, dtype_, reinterpret_cast<const std::byte*>(gradient), n, residual.data(), frame_.data() + 1);
    EXPECT_EQ(InvalidReason(part(), dtype_, n), "");
  }
  Encoded part() const { return {frame_.data() + 1, frame_.size() - 1, how_.type}; }
  std::vector<float> Decoded() const {
    std::vector<float> out(residual.size(), 77);
    Decode(part(), dtype_, 0, out.size(), out.data());
    return out;
  }
  std::vector<std::byte>& frame() { return frame_; }

  std::vector<float> residual;

 private:
  const GradientCompression how_;
  const DType dtype_;
  std::vector<std::byte> frame_;
};

// The schemes once more, element by element, as sluice/compression.h says them.
float Sent2Bit(float threshold, float r) {
  return r >= threshold ? threshold : r <= -threshold ? -threshold : 0;
}
float Sent1Bit(float threshold, float r) {
  return r > threshold ? 1 : -1;
}
using Scheme = float (*)(float threshold, float r);

struct BitsCase {
  Compression type;
  Scheme sent;
};

class BitsOf : public ::testing::TestWithParam<BitsCase> {};
INSTANTIATE_TEST_SUITE_P(Types, BitsOf,
                         ::testing::Values(BitsCase{Compression::k2Bit, Sent2Bit},
                                           BitsCase{Compression::k1Bit, Sent1Bit}),
                         [](const auto& info) { return std::string(Name(info.param.type)); });

TEST_P(BitsOf, SendWhatTheSchemeSaysAndKeepTheRest) {
  Rng rng(1);
  for (const size_t n : kSizes) {
    Sender sender({.type = GetParam().type, .threshold = 0.5f}, n);
    std::vector<float> residual(n);
    for (int push = 0; push < 20; ++push) {
      const std::vector<float> gradient = Normals(rng, n, 0.4);
      sender.Push(gradient);
      const std::vector<float> decoded = sender.Decoded();
      for (size_t i = 0; i < n; ++i) {
        const float r = residual[i] + gradient[i], sent = GetParam().sent(0.5f, r);
        ASSERT_EQ(decoded[i], sent) << i << " of " << n << ", push " << push;
        residual[i] = r - sent;
        ASSERT_EQ(sender.residual[i], residual[i]) << i << " of " << n << ", push " << push;
      }
    }
  }
}

TEST_P(BitsOf, PartThatIsNotFiniteArrivesAsNanAndTheNextAsEver) {
  for (const float wrong : {kNan, kInf, -kInf}) {
    constexpr size_t n = 3000;
    Sender sender({.type = GetParam().type, .threshold = 0.5f}, n);
    std::vector<float> gradient(n, 0.25f);
    gradient[2777] = wrong;
    sender.Push(gradient);
    EXPECT_THAT(sender.Decoded(), ::testing::Each(::testing::IsNan()));
    EXPECT_EQ(sender.residual[2777], 0) << wrong;
    EXPECT_TRUE(std::ranges::all_of(sender.residual, [](float r) { return std::isfinite(r); }));
    sender.Push(std::vector<float>(n, 0.25f));
    EXPECT_TRUE(std::ranges::all_of(sender.Decoded(), [](float v) { return std::isfinite(v); })) << wrong;
  }
}

TEST(Codec, BytesAreThoseOfTheDocument) {
  const auto bytes_of = [](const Sender& sender) {
    const Encoded part = sender.part();
    std::vector<int> bytes;
    for (size_t i = 0; i < part.size; ++i) bytes.push_back(static_cast<int>(part.data[i]));
    return bytes;
  };
  using ::testing::ElementsAre;
  // 0.5 is 0x3f000000, 1 is 0x3f800000, 2 is 0x40000000; as 16-bit floats 0x3800, 0x3c00, 0x4000 and 0x3f00,
  // 0x3f80, 0x4000.
  std::vector<float> eighteen(18, 0.0f);
  eighteen[0] = eighteen[9] = eighteen[17] = 2;
  eighteen[1] = -2;
  Sender two({.type = Compression::k2Bit}, 18);
  two.Push(eighteen);
  EXPECT_THAT(bytes_of(two), ElementsAre(0, 0, 0, 0x3f, 0x01, 0x02, 0x02, 0, 0x02, 0, 0, 0));
  Sender one({.type = Compression::k1Bit}, 18);
  one.Push(eighteen);
  EXPECT_THAT(bytes_of(one), ElementsAre(0, 0, 0x80, 0x3f, 0x01, 0x02, 0x02));
  Sender half({.type = Compression::kFloat16}, 2);
  half.Push({0.5f, 2});
  EXPECT_THAT(bytes_of(half), ElementsAre(0, 0x38, 0, 0x40));
  Sender brain({.type = Compression::kBFloat16}, 2);
  brain.Push({0.5f, 1});
  EXPECT_THAT(bytes_of(brain), ElementsAre(0, 0x3f, 0x80, 0x3f));
  Sender top({.type = Compression::kTopK, .ratio = 0.5f}, 4);
  top.Push({0.25f, 2, 0.1f, -2});
  EXPECT_THAT(bytes_of(top), ElementsAre(1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0xc0));
}

TEST(Codec, GradientsOf16BitsThatAreNotCompressedStayOf16Bits) {
  // 0.5, 1 and -2, as the two types have them.
  for (const auto& [dtype, bits] :
       {std::pair(DType::kFloat16, std::array<uint16_t, 3>{0x3800, 0x3c00, 0xc000}),
        {DType::kBFloat16, std::array<uint16_t, 3>{0x3f00, 0x3f80, 0xc000}}}) {
    const auto bytes = std::as_bytes(std::span(bits));
    ASSERT_EQ(EncodedBytes({}, dtype, 3), bytes.size());
    EXPECT_EQ(InvalidReason({bytes.data(), bytes.size()}, dtype, 3), "");
    std::vector<float> values(3, 1.0f);
    AddDecoded({bytes.data(), bytes.size()}, dtype, 0, 3, values.data());
    EXPECT_THAT(values, ::testing::ElementsAre(1.5f, 2, -1));
    std::vector<float> residual(3);
    std::vector<std::byte> sent(bytes.size());
    Encode({}, dtype, bytes.data(), 3, residual.data(), sent.data());
    EXPECT_TRUE(std::ranges::equal(sent, bytes));
    EXPECT_THAT(residual, ::testing::Each(0.0f));
  }
}

class HalvesOf : public ::testing::TestWithParam<Compression> {};
INSTANTIATE_TEST_SUITE_P(Types, HalvesOf, ::testing::Values(Compression::kFloat16, Compression::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST_P(HalvesOf, AreRoundedAndTheRestIsKept) {
  Rng rng(2);
  for (const size_t n : kSizes) {
    Sender sender({.type = GetParam()}, n);
    std::vector<double> all(n), arrived(n);
    for (int push = 0; push < 50; ++push) {
      const std::vector<float> gradient = Normals(rng, n), before = sender.residual;
      sender.Push(gradient);
      const std::vector<float> decoded = sender.Decoded();
      for (size_t i = 0; i < n; ++i) {
        const float r = before[i] + gradient[i];
        const float rounded =
            GetParam() == Compression::kFloat16 ? ToFloat(HalfFromFloat(r)) : ToFloat(BFloat16FromFloat(r));
        ASSERT_EQ(decoded[i], rounded);
        ASSERT_EQ(sender.residual[i], r - rounded);
        all[i] += gradient[i];
        arrived[i] += decoded[i];
      }
    }
    // Without what is kept 50 roundings would be off by a few of these.
    for (size_t i = 0; i < n; ++i) ASSERT_NEAR(arrived[i] + sender.residual[i], all[i], 1e-5);
  }
}

TEST_P(HalvesOf, WhatIsTooLargeArrivesInSeveralPushes) {
  const float largest = GetParam() == Compression::kFloat16 ? 65504.0f : 0x1.fep127f;
  const float much = GetParam() == Compression::kFloat16 ? 150'000.0f : std::numeric_limits<float>::max();
  Sender sender({.type = GetParam()}, 2);
  sender.Push({much, -much});
  EXPECT_THAT(sender.Decoded(), ::testing::ElementsAre(largest, -largest));
  EXPECT_THAT(sender.residual, ::testing::ElementsAre(much - largest, largest - much));
  sender.Push({0, 0});
  EXPECT_GT(sender.Decoded()[0], 0);
}

TEST_P(HalvesOf, WhatIsNotFiniteArrivesOnceAndStaysInNoResidual) {
  Sender sender({.type = GetParam()}, 3);
  sender.Push({kInf, -kInf, kNan});
  EXPECT_THAT(sender.Decoded(), ::testing::ElementsAre(kInf, -kInf, ::testing::IsNan()));
  EXPECT_THAT(sender.residual, ::testing::Each(0.0f));
}

// The k largest by sorting, of equal ones the first.
std::vector<size_t> Largest(const std::vector<float>& values, size_t k) {
  std::vector<size_t> places(values.size());
  std::iota(places.begin(), places.end(), size_t{0});
  std::stable_sort(places.begin(), places.end(),
                   [&](size_t a, size_t b) { return std::abs(values[a]) > std::abs(values[b]); });
  places.resize(k);
  std::sort(places.begin(), places.end());
  return places;
}

TEST(TopK, SendsTheLargestAndKeepsTheOthers) {
  Rng rng(3);
  for (const size_t n : kSizes) {
    for (const float ratio : {0.001f, 0.01f, 0.3f, 1.0f}) {
      const auto k =
          std::clamp<size_t>(static_cast<size_t>(std::llround(double{ratio} * static_cast<double>(n))), 1, n);
      Sender sender({.type = Compression::kTopK, .ratio = ratio}, n);
      for (int push = 0; push < 3; ++push) {
        std::vector<float> r = Normals(rng, n);
        for (float& value : r)  // many of a size
          if (rng.Chance(0.5)) value = static_cast<float>(static_cast<int>(rng.Below(5)) - 2);
        std::vector<float> gradient = r;
        for (size_t i = 0; i < n; ++i) r[i] = sender.residual[i] + gradient[i];
        sender.Push(gradient);
        EXPECT_EQ(sender.part().size, 8 * k);
        std::vector<float> expected(n, 0.0f), left = r;
        for (const size_t place : Largest(r, k)) std::swap(expected[place], left[place]);
        ASSERT_EQ(sender.Decoded(), expected) << k << " of " << n << ", push " << push;
        ASSERT_EQ(sender.residual, left) << k << " of " << n << ", push " << push;
      }
    }
  }
}

TEST(TopK, WhatIsNotFiniteGoesFirstAsItIs) {
  Sender sender({.type = Compression::kTopK, .ratio = 0.4f}, 5);
  sender.Push({1e30f, kNan, 3, -kInf, 1e38f});
  EXPECT_THAT(sender.Decoded(), ::testing::ElementsAre(0, ::testing::IsNan(), 0, -kInf, 0));
  EXPECT_THAT(sender.residual, ::testing::ElementsAre(1e30f, 0, 3, 0, 1e38f));
}

TEST(TopK, OfMoreThanItSendsNothingThatIsNotFiniteStays) {
  Sender sender({.type = Compression::kTopK, .ratio = 0.4f}, 5);
  sender.Push({kNan, kNan, 3, -kInf, kInf});
  EXPECT_EQ(std::ranges::count_if(sender.Decoded(), [](float v) { return !std::isfinite(v); }), 2);
  EXPECT_THAT(sender.residual, ::testing::ElementsAre(0, 0, 3, 0, 0));
  sender.Push({1, 1, 1, 1, 2});
  EXPECT_THAT(sender.Decoded(), ::testing::ElementsAre(0, 0, 4, 0, 2));
}

TEST(Codec, TheScaleIsOfWhatTheBitsStandFor) {
  const std::vector<float> gradient = {0.3f, -0.1f, 0.24f};
  for (const auto& [type, expected] : {std::pair(Compression::k2Bit, std::vector<float>{0.25f, 0, 0}),
                                       {Compression::k1Bit, std::vector<float>{0.5f, -0.5f, -0.5f}}}) {
    const GradientCompression how{.type = type, .threshold = 0.5f};
    std::vector<float> residual(3), decoded(3);
    std::vector<std::byte> frame(EncodedBytes(how, DType::kFloat32, 3));
    Encode(how, DType::kFloat32, std::as_bytes(std::span(gradient)).data(), 3, residual.data(), frame.data(),
           0.5f);
    Decode({frame.data(), frame.size(), type}, DType::kFloat32, 0, 3, decoded.data());
    EXPECT_EQ(decoded, expected);
    for (size_t i = 0; i < 3; ++i) EXPECT_FLOAT_EQ(residual[i], gradient[i] - expected[i]);
  }
}

class EveryType : public ::testing::TestWithParam<Compression> {};
INSTANTIATE_TEST_SUITE_P(Types, EveryType,
                         ::testing::Values(Compression::kNone, Compression::k2Bit, Compression::k1Bit,
                                           Compression::kFloat16, Compression::kBFloat16, Compression::kTopK),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST_P(EveryType, BlocksAreThePartAndAddingIsAddition) {
  Rng rng(4);
  constexpr size_t n = 5003;
  Sender sender({.type = GetParam(), .ratio = 0.1f}, n);
  sender.Push(Normals(rng, n));
  const std::vector<float> whole = sender.Decoded(), base = Normals(rng, n);
  for (const size_t block : {size_t{16}, size_t{48}, size_t{2048}, n}) {
    std::vector<float> decoded(n, 77), added = base;
    for (size_t first = 0; first < n; first += block) {
      const size_t count = std::min(block, n - first);
      Decode(sender.part(), DType::kFloat32, first, count, decoded.data() + first);
      AddDecoded(sender.part(), DType::kFloat32, first, count, added.data() + first);
    }
    ASSERT_EQ(decoded, whole) << "blocks of " << block;
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(added[i], base[i] + whole[i]) << i << ", blocks of " << block;
  }
}

TEST_P(EveryType, OtherSizesAreRefused) {
  Sender sender({.type = GetParam(), .ratio = 1}, 100);
  sender.Push(std::vector<float>(100, 1.0f));
  Encoded part = sender.part();
  EXPECT_EQ(InvalidReason(part, DType::kFloat32, 100), "");
  EXPECT_NE(InvalidReason(part, DType::kFloat32, 20), "");
  part.size -= 1;
  EXPECT_NE(InvalidReason(part, DType::kFloat32, 100), "");
  part.size = 0;
  EXPECT_EQ(InvalidReason(part, DType::kFloat32, 100).empty(),
            GetParam() == Compression::kTopK);  // it has no elements
}

TEST(Codec, SixteenBitKeysAreEncodedFromTheirElements) {
  Rng rng(5);
  constexpr size_t n = 1000;
  std::vector<BFloat16> gradient(n);
  std::vector<float> widened(n);
  for (size_t i = 0; i < n; ++i) {
    gradient[i] = BFloat16FromFloat(static_cast<float>(rng.Normal()));
    widened[i] = ToFloat(gradient[i]);
  }
  for (const Compression type : {Compression::k2Bit, Compression::k1Bit, Compression::kTopK}) {
    Sender sixteen({.type = type}, n, DType::kBFloat16), wide({.type = type}, n);
    sixteen.PushBytes(gradient.data(), n);
    wide.Push(widened);
    EXPECT_EQ(sixteen.Decoded(), wide.Decoded()) << Name(type);
    EXPECT_EQ(sixteen.residual, wide.residual) << Name(type);
  }
}

TEST(Codec, NoCompressionSendsWhatWasKept) {
  Sender sender({}, 3);
  sender.residual = {1, 2, 3};
  sender.Push({10, 20, 30});
  EXPECT_THAT(sender.Decoded(), ::testing::ElementsAre(11, 22, 33));
  EXPECT_THAT(sender.residual, ::testing::Each(0.0f));
}

TEST(Codec, AppliesToWhatItMakesSmaller) {
  for (const DType dtype : kAllDTypes) {
    const bool wide = dtype == DType::kFloat32, half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
    EXPECT_FALSE(Applies({}, dtype));
    for (const Compression type : {Compression::k2Bit, Compression::k1Bit, Compression::kTopK})
      EXPECT_EQ(Applies({.type = type}, dtype), wide || half) << Name(type) << " " << Name(dtype);
    for (const Compression type : {Compression::kFloat16, Compression::kBFloat16})
      EXPECT_EQ(Applies({.type = type}, dtype), wide) << Name(type) << " " << Name(dtype);
  }
}

// Each element chosen takes eight bytes.
TEST(Codec, TopKAppliesWhereItTakesLessThanAllElements) {
  const auto applies = [](float ratio, DType dtype) {
    return Applies({.type = Compression::kTopK, .ratio = ratio}, dtype);
  };
  EXPECT_TRUE(applies(0.49f, DType::kFloat32));
  EXPECT_FALSE(applies(0.5f, DType::kFloat32));
  EXPECT_FALSE(applies(1, DType::kFloat32));
  for (const DType half : {DType::kFloat16, DType::kBFloat16}) {
    EXPECT_TRUE(applies(0.24f, half));
    EXPECT_FALSE(applies(0.25f, half));
    EXPECT_FALSE(applies(1, half));
  }
  for (const float ratio : {0.001f, 0.24f, 0.2499f}) {
    constexpr size_t kElements = 524'288;
    EXPECT_LE(EncodedBytes({.type = Compression::kTopK, .ratio = ratio}, DType::kFloat16, kElements),
              kElements * SizeOf(DType::kFloat16));
  }
}

TEST(Codec, BytesFromTheNetworkAreRefusedWithTheReason) {
  const auto why = [](Sender& sender, size_t byte, int value, size_t n) {
    const std::byte was = std::exchange(sender.frame()[1 + byte], static_cast<std::byte>(value));
    const std::string text = InvalidReason(sender.part(), DType::kFloat32, n);
    sender.frame()[1 + byte] = was;
    return text;
  };
  Sender two({.type = Compression::k2Bit}, 18);
  two.Push(std::vector<float>(18, 1.0f));
  EXPECT_THAT(why(two, 6, 1, 18), HasSubstr("no numbers of 18 elements"));  // plus and minus
  EXPECT_THAT(why(two, 8, 7, 18), HasSubstr("no numbers of 18 elements"));  // a 19th element
  EXPECT_THAT(why(two, 11, 0x80, 18), HasSubstr("no numbers of 18 elements"));
  EXPECT_THAT(why(two, 3, 0xbf, 18), HasSubstr("stand for -0.5"));
  two.frame()[1 + 2] = std::byte{0x80};
  EXPECT_THAT(why(two, 3, 0x7f, 18), HasSubstr("stand for inf"));
  Sender one({.type = Compression::k1Bit}, 18);
  one.Push(std::vector<float>(18, 2.0f));
  EXPECT_THAT(why(one, 6, 7, 18), HasSubstr("no numbers of 18 elements"));
  Sender top({.type = Compression::kTopK, .ratio = 0.5f}, 4);
  top.Push({0.25f, 2, 0.1f, -2});
  EXPECT_THAT(why(top, 0, 3, 4), HasSubstr("do not ascend"));  // twice the same
  EXPECT_THAT(why(top, 4, 0, 4), HasSubstr("do not ascend"));
  EXPECT_THAT(why(top, 4, 4, 4), HasSubstr("beyond the part"));
  EXPECT_THAT(why(top, 7, 0x80, 4), HasSubstr("beyond the part"));
  Encoded plain{two.frame().data(), 4, Compression::kFloat16};
  EXPECT_THAT(InvalidReason(plain, DType::kFloat64, 2), HasSubstr("a float64 key does not travel as fp16"));
  EXPECT_THAT(InvalidReason(plain, DType::kFloat32, 3), HasSubstr("4 bytes came, the part has 6 as fp16"));
}

}  // namespace
}  // namespace sluice::compression
