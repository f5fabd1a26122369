#include "contract/device/typed_test.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice::testing {

Format FormatOf(DType type) {
  if (type == DType::kFloat64) return {11, 52};
  if (type == DType::kFloat16) return {5, 10};
  return {8, type == DType::kBFloat16 ? 7 : 23};
}

bool IsNan(Format f, uint64_t word) {
  return (word & ~f.sign()) > f.infinity();
}

double ValueOf(Format f, uint64_t word) {
  const uint64_t magnitude = word & ~f.sign(), fraction = magnitude % f.one_step();
  const auto exponent = static_cast<int>(magnitude / f.one_step());
  double value = std::ldexp(static_cast<double>(fraction), f.least() - f.mantissa_bits);  // if subnormal
  if (exponent > 0)
    value =
        std::ldexp(static_cast<double>(fraction + f.one_step()), f.least() + exponent - 1 - f.mantissa_bits);
  if (magnitude == f.infinity()) value = std::numeric_limits<double>::infinity();
  if (magnitude > f.infinity()) value = std::numeric_limits<double>::quiet_NaN();
  return (word & f.sign()) != 0 ? -value : value;
}

uint64_t WordOf(Format f, double value) {
  const uint64_t sign = std::signbit(value) ? f.sign() : 0;
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | (f.infinity() + 1);
  if (std::isinf(value)) return sign | f.infinity();
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), f.least());
  const double exact = std::ldexp(magnitude, f.mantissa_bits - exponent), below = std::floor(exact);
  auto steps = static_cast<uint64_t>(below);
  if (exact - below > 0.5 || (exact - below == 0.5 && steps % 2 == 1)) ++steps;
  // The bit of `steps` above the mantissa, which a subnormal number lacks, counts as one of the exponent.
  const uint64_t word = static_cast<uint64_t>(exponent - f.least()) * f.one_step() + steps;
  return sign | std::min(word, f.infinity());
}

void ExpectSame(DType type, const Words& actual, const Words& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (IsFloating(type) && IsNan(FormatOf(type), expected[i])) {
      ASSERT_TRUE(IsNan(FormatOf(type), actual[i]))
          << "element " << i << " has the bits " << std::hex << actual[i] << " and is not NaN";
      continue;
    }
    ASSERT_EQ(actual[i], expected[i])
        << "element " << i << " has the bits " << std::hex << actual[i] << ", not " << expected[i];
  }
}

Words TypedDeviceTest::RandomWords(DType type, int64_t n) {
  Words words(static_cast<size_t>(n));
  for (uint64_t& word : words) word = rng().Next() & BitsOf(type);
  return words;
}

Words TypedDeviceTest::RandomNumbers(DType type, int64_t n, double low, double high) {
  Words words;
  for (const float value : Uniform(n, low, high)) words.push_back(WordOf(FormatOf(type), value));
  return words;
}

}  // namespace sluice::testing
