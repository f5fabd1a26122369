#include "base/strings.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Strings, ParseIntTakesWholeNumbersOnly) {
  EXPECT_EQ(ParseInt("-12"), -12);
  for (const char* bad : {"", "1x", " 1", "1 ", "1.5", "99999999999999999999", "0x10", "--1"}) {
    EXPECT_EQ(ParseInt(bad), std::nullopt) << bad;
  }
}

TEST(Strings, ParseFiniteDoubleRefusesNanAndInfinity) {
  EXPECT_EQ(ParseFiniteDouble("1e-4"), 1e-4);
  for (const char* bad : {"", "nan", "inf", "-inf", "1e999", "0.5f", "1,5"}) {
    EXPECT_EQ(ParseFiniteDouble(bad), std::nullopt) << bad;
  }
}

TEST(Strings, ParseBoolKnowsTheUsualWords) {
  EXPECT_EQ(ParseBool("on"), true);
  EXPECT_EQ(ParseBool("0"), false);
  EXPECT_EQ(ParseBool("maybe"), std::nullopt);
}

TEST(Strings, SplitTrimJoin) {
  EXPECT_EQ(StrSplit("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(StrTrim(" \tx y\n"), "x y");
  EXPECT_EQ(StrJoin(std::vector<int>{1, 2, 3}), "1, 2, 3");
  EXPECT_EQ(StrCat("key ", 3, " of ", 4.5), "key 3 of 4.5");
}

TEST(Strings, HumanBytes) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1536), "1.5 KiB");
  EXPECT_EQ(HumanBytes(uint64_t{64} << 20), "64 MiB");
}

}  // namespace
}  // namespace sluice
