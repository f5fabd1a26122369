#include "base/inline_vector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using Pointers = InlineVector<std::shared_ptr<int>, 3>;

TEST(InlineVectorTest, LiesInsideUntilItIsLonger) {
  InlineVector<std::string, 2> words;
  const auto lies_inside = [&] {
    const auto* at = reinterpret_cast<const char*>(words.data());
    const auto* begin = reinterpret_cast<const char*>(&words);
    return at >= begin && at < begin + sizeof words;
  };
  words.push_back("one, longer than a small string's own room");
  words.emplace_back(3, 'x');
  EXPECT_TRUE(lies_inside());
  words.push_back("three");
  EXPECT_FALSE(lies_inside());
  EXPECT_THAT(words, ElementsAre("one, longer than a small string's own room", "xxx", "three"));
  const std::span<const std::string> view = words;
  EXPECT_EQ(view.size(), 3u);
}

TEST(InlineVectorTest, MovesAndEndsEveryElementOnce) {
  const auto element = std::make_shared<int>(1);
  for (const size_t n : {0, 2, 3, 4, 9}) {
    Pointers from;
    for (size_t i = 0; i < n; ++i) from.push_back(element);
    Pointers to = std::move(from);
    EXPECT_EQ(to.size(), n);
    EXPECT_TRUE(from.empty());  // NOLINT(bugprone-use-after-move): empty
    from.push_back(element);
    EXPECT_EQ(static_cast<size_t>(element.use_count()), 1 + n + 1);
    from = std::move(to);
    EXPECT_EQ(static_cast<size_t>(element.use_count()), 1 + n);
    from.clear();
    EXPECT_EQ(element.use_count(), 1);
  }
}

TEST(InlineVectorTest, IsWhatAVectorIs) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Rng rng(seed);
    Pointers ours;
    std::vector<std::shared_ptr<int>> expected;
    for (int step = 0; step < 100; ++step) {
      const int what = static_cast<int>(rng.Below(8));
      if (what < 6) {
        expected.push_back(std::make_shared<int>(step));
        ours.push_back(expected.back());
      } else if (what == 6) {
        const auto odd = [](const auto& p) { return *p % 2 == 1; };
        ours.EraseIf(odd);
        std::erase_if(expected, odd);
      } else {
        Pointers moved = std::move(ours);
        ours = std::move(moved);
      }
      ASSERT_TRUE(std::equal(ours.begin(), ours.end(), expected.begin(), expected.end())) << seed;
    }
  }
}

}  // namespace
}  // namespace sluice
