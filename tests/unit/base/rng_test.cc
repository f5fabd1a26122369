#include "base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace sluice {
namespace {

TEST(Rng, IsAFunctionOfItsSeed) {
  Rng a(42), b(42), c(43);
  EXPECT_EQ(a.Next(), b.Next());
  EXPECT_NE(a.Next(), c.Next());
}

TEST(Rng, BelowStaysBelowAndReachesEverything) {
  Rng rng(1);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(rng.Below(7));
  EXPECT_EQ(seen, (std::set<uint64_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(Rng, MomentsOfUniformAndNormal) {
  Rng rng(5);
  double uniform = 0, normal = 0, square = 0;
  constexpr int kDraws = 200000;
  for (int i = 0; i < kDraws; ++i) {
    uniform += rng.Uniform();
    const double x = rng.Normal();
    normal += x;
    square += x * x;
  }
  EXPECT_NEAR(uniform / kDraws, 0.5, 0.005);
  EXPECT_NEAR(normal / kDraws, 0.0, 0.01);
  EXPECT_NEAR(square / kDraws, 1.0, 0.02);
}

TEST(Rng, PermutationHoldsEachIndexOnce) {
  Rng rng(9);
  const auto order = rng.Permutation(1000);
  EXPECT_EQ(std::set<uint64_t>(order.begin(), order.end()).size(), 1000u);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
}

TEST(DeriveSeed, DependsOnEveryPartAndOnTheirOrder) {
  EXPECT_NE(DeriveSeed(1, 2, 3), DeriveSeed(1, 3, 2));
  EXPECT_NE(DeriveSeed(1, 2), DeriveSeed(2, 2));
  EXPECT_EQ(DeriveSeed(1, 2), DeriveSeed(1, 2));
}

}  // namespace
}  // namespace sluice
