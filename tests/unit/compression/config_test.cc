#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "sluice/compression.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

TEST(GradientCompressionConfig, NamesGoThereAndBack) {
  for (int type = 0; type <= static_cast<int>(Compression::kTopK); ++type) {
    const auto compression = static_cast<Compression>(type);
    EXPECT_EQ(CompressionFromName(std::string(Name(compression))), compression);
  }
  EXPECT_EQ(Name(static_cast<Compression>(77)), "unknown");
  try {
    CompressionFromName("3bit\n");
    FAIL() << "there is no 3bit";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("'3bit\\x0a'; there are none, 2bit, 1bit, fp16, bf16, topk"));
  }
}

TEST(GradientCompressionConfig, SaysWhichFieldIsWrong) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(InvalidReason(GradientCompression{}), "");
  EXPECT_EQ(InvalidReason({.type = Compression::k1Bit, .threshold = 0}), "");
  EXPECT_EQ(InvalidReason({.type = Compression::k1Bit, .threshold = -1}), "");
  EXPECT_EQ(InvalidReason({.type = Compression::kTopK, .ratio = 1}), "");
  EXPECT_THAT(InvalidReason({.type = Compression::k2Bit, .threshold = 0}),
              HasSubstr("threshold is 0; 2bit needs"));
  EXPECT_THAT(InvalidReason({.type = Compression::k2Bit, .threshold = kNan}), HasSubstr("threshold is nan"));
  EXPECT_THAT(InvalidReason({.type = Compression::k1Bit, .threshold = 1 / 0.0f}),
              HasSubstr("threshold is inf"));
  for (const float ratio : {0.0f, -0.1f, 1.01f, kNan})
    EXPECT_THAT(InvalidReason({.type = Compression::kTopK, .ratio = ratio}), HasSubstr("ratio is "));
  EXPECT_EQ(InvalidReason({.weights = Compression::kBFloat16}), "");
  EXPECT_THAT(InvalidReason({.weights = Compression::kTopK}),
              HasSubstr("weights is topk; they travel as none, fp16"));
  EXPECT_THAT(InvalidReason({.type = static_cast<Compression>(9)}), HasSubstr("type 9 is unknown"));
}

}  // namespace
}  // namespace sluice
