// A comparison for results that are differences of larger terms: float32 leaves them the terms' digits.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace sluice::testing {

inline double NormOf(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

// Expects the 2-norm of the difference to be at most `tolerance` times that of `terms`, all finite.
inline void ExpectWithin(const std::vector<float>& actual, const std::vector<double>& expected,
                         const std::vector<double>& terms, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  std::vector<double> differences;
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_TRUE(std::isfinite(actual[i])) << "element " << i << " is " << actual[i];
    differences.push_back(actual[i] - expected[i]);
  }
  EXPECT_LE(NormOf(differences), tolerance * NormOf(terms))
      << "of " << actual.size() << " elements, whose terms have the norm " << NormOf(terms);
}

}  // namespace sluice::testing
