// Tests base/inline_vector.h: a vector whose first elements lie inside it constructs, moves and destroys each
// element once. std::vector is the reference.
#include "base/inline_vector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
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

TEST(InlineVectorTest, CopiesEveryElementAndSharesNoRoom) {
  const auto element = std::make_shared<int>(1);
  for (const size_t n : {0, 2, 3, 4, 9}) {
    Pointers from;
    for (size_t i = 0; i < n; ++i) from.push_back(element);
    Pointers to = from;
    EXPECT_EQ(to, from);
    EXPECT_EQ(static_cast<size_t>(element.use_count()), 1 + 2 * n);
    to.push_back(nullptr);
    EXPECT_EQ(from.size(), n);
    EXPECT_NE(to, from);
    to = from;
    EXPECT_EQ(to, from);
    const Pointers& same = to;
    to = same;
    EXPECT_EQ(to, from);
    EXPECT_EQ(static_cast<size_t>(element.use_count()), 1 + 2 * n);
  }
  static_assert(!std::is_copy_constructible_v<InlineVector<std::unique_ptr<int>, 1>>);
  static_assert(!std::is_copy_assignable_v<InlineVector<std::unique_ptr<int>, 1>>);
}

TEST(InlineVectorTest, ACopyThatThrowsEndsWhatItHasMade) {
  struct Sour {
    explicit Sour(std::shared_ptr<int> v) : value(std::move(v)) {}
    Sour(const Sour& other) : value(other.value) {
      if (value.use_count() > 4) throw std::runtime_error("enough");
    }
    Sour(Sour&&) noexcept = default;
    Sour& operator=(Sour&&) noexcept = default;
    std::shared_ptr<int> value;
  };
  const auto value = std::make_shared<int>(1);
  InlineVector<Sour, 1> from;
  from.emplace_back(value);
  from.emplace_back(value);
  using Sours = InlineVector<Sour, 1>;
  EXPECT_THROW(Sours{from}, std::runtime_error);
  EXPECT_EQ(value.use_count(), 3);
}

TEST(InlineVectorTest, HasTheSizeAndTheRoomAskedFor) {
  const InlineVector<int, 2> zeros(5);
  EXPECT_THAT(zeros, ElementsAre(0, 0, 0, 0, 0));
  EXPECT_EQ(zeros.front(), 0);
  InlineVector<int, 2> numbers{1};
  const int* inside = numbers.data();
  numbers.reserve(2);
  EXPECT_EQ(numbers.data(), inside);
  numbers.reserve(7);
  const int* outside = numbers.data();
  EXPECT_NE(outside, inside);
  while (numbers.size() < 7) numbers.push_back(static_cast<int>(numbers.size()) + 1);
  EXPECT_EQ(numbers.data(), outside);
  EXPECT_THAT(numbers, ElementsAre(1, 2, 3, 4, 5, 6, 7));
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
