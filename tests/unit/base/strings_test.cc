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

TEST(Strings, PrintableTextHasNoControlCharacters) {
  EXPECT_EQ(StrPrintable("a b'\xc3\xa4"), "a b'\xc3\xa4");
  EXPECT_EQ(StrPrintable(std::string_view("\0\t\x1b[1m\x7f", 7)), "\\x00\\x09\\x1b[1m\\x7f");
  EXPECT_EQ(StrPrintable("\xff\xc3"), "\\xff\\xc3");
}

TEST(Strings, SplitTrimJoin) {
  EXPECT_EQ(StrSplit("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(StrTrim(" \tx y\n"), "x y");
  EXPECT_EQ(StrJoin(std::vector<int>{1, 2, 3}), "1, 2, 3");
  EXPECT_EQ(StrCat("key ", 3, " of ", 4.5), "key 3 of 4.5");
}

TEST(Strings, StrWrapBreaksAtSpaces) {
  EXPECT_EQ(StrWrap("a short text", 80), "a short text");
  EXPECT_EQ(StrWrap("one two three", 7), "one two\n  three");
  EXPECT_EQ(StrWrap("one two three", 7, 4), "one\n  two\n  three");
  EXPECT_EQ(StrWrap("/a/long/path b", 5, 0, 0), "/a/long/path\nb");
  EXPECT_EQ(StrWrap("", 5), "");
  EXPECT_EQ(StrWrap("ab\ncd ef gh", 5), "ab\ncd ef\n  gh");  // lines of their own
}

TEST(Strings, MessagesFitATerminalBehindTheNameOfAProcess) {
  std::string words;
  for (int i = 0; i < 100; ++i) words += "word ";
  size_t start = std::string("[worker 99] 09:07:05.042 WARNING: ").size();
  for (const std::string& line : StrSplit(WrapLogged(words), '\n')) {
    EXPECT_LE(start + line.size(), 80u) << line;
    start = std::string("[worker 99] ").size();
  }
  for (const std::string& line : StrSplit(WrapMessage(words), '\n'))
    EXPECT_LE(start + line.size(), 80u) << line;
}

TEST(Strings, Utf8IsWhatRfc3629Says) {
  for (const char* good : {"", "conv1.weight", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF",
                           "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
    EXPECT_TRUE(IsUtf8(good)) << good;
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC3", "\xC3(", "\xE0\x9F\xBF", "\xE2\x82", "\xED\xA0\x80",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "a\xE4z"})
    EXPECT_FALSE(IsUtf8(bad));
}

TEST(Strings, PrintableKeepsWhatATerminalTakesAsText) {
  EXPECT_EQ(StrPrintable("caf\xC3\xA9 'x'"), "caf\xC3\xA9 'x'");
  EXPECT_EQ(StrPrintable("caf\xE9"), "caf\\xe9");
  EXPECT_EQ(StrPrintable("\x1B[2J\n\x7F"), "\\x1b[2J\\x0a\\x7f");
}

TEST(Strings, ANanHasNoSign) {
  EXPECT_EQ(StrCat("is ", -std::numeric_limits<double>::quiet_NaN()), "is nan");
  EXPECT_EQ(StrCat("is ", -std::numeric_limits<float>::quiet_NaN(), " ", -1.5f), "is nan -1.5");
}

TEST(Strings, Counted) {
  EXPECT_EQ(Counted(0, "worker"), "0 workers");
  EXPECT_EQ(Counted(1, "worker"), "1 worker");
  EXPECT_EQ(Counted(2, "worker"), "2 workers");
}

TEST(Strings, HumanBytes) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1536), "1.5 KiB");
  EXPECT_EQ(HumanBytes(uint64_t{64} << 20), "64 MiB");
}

}  // namespace
}  // namespace sluice
