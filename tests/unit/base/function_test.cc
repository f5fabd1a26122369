// Tests the callables and labels of base/ (inline_function.h, function_ref.h, label.h): they allocate
// nothing, and hold, move and destroy exactly what they were given.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/inline_function.h"
#include "base/label.h"

namespace sluice {
namespace {

using Small = InlineFunction<int(int), 32>;

// Counts the living.
struct Counted {
  explicit Counted(int* count) : living(count) { ++*living; }
  Counted(const Counted& other) : living(other.living) { ++*living; }
  Counted(Counted&& other) noexcept : living(other.living) { ++*living; }
  ~Counted() { --*living; }
  int* living;
};

TEST(InlineFunctionTest, CallsWhatItHoldsInsideAndOutside) {
  const std::array<int, 4> few = {1, 2, 3, 4};
  const std::array<int, 100> many = {5, 6, 7};
  const auto inside = [few](int i) { return few[static_cast<size_t>(i)]; };
  const auto outside = [many](int i) { return many[static_cast<size_t>(i)]; };
  static_assert(Small::kFits<decltype(inside)> && !Small::kFits<decltype(outside)>);
  Small one = inside, other = outside;
  EXPECT_EQ(one(2), 3);
  EXPECT_EQ(other(2), 7);
  std::swap(one, other);
  EXPECT_EQ(one(1), 6);
  EXPECT_EQ(other(1), 2);
}

TEST(InlineFunctionTest, HoldsWhatCannotBeCopied) {
  InlineFunction<int(), 32> f = [owned = std::make_unique<int>(7)] { return ++*owned; };
  EXPECT_EQ(f(), 8);
  InlineFunction<int(), 32> moved = std::move(f);
  EXPECT_EQ(moved(), 9);
  EXPECT_FALSE(f);  // NOLINT(bugprone-use-after-move): empty
}

TEST(InlineFunctionTest, EndsWhatItHeldOnce) {
  int living = 0;
  {
    using Function = InlineFunction<void(), 32>;
    const std::array<char, 100> more{};
    std::vector<Function> functions;
    for (int i = 0; i < 20; ++i) {  // grows: moves
      functions.emplace_back([counted = Counted(&living)] {});
      functions.emplace_back([counted = Counted(&living), more] {});
    }
    EXPECT_EQ(living, 40);
    functions[0] = std::move(functions[1]);
    EXPECT_EQ(living, 39);
    functions[2] = nullptr;
    EXPECT_EQ(living, 38);
    functions[3] = [] {};
    EXPECT_EQ(living, 37);
  }
  EXPECT_EQ(living, 0);
}

TEST(InlineFunctionTest, PassesReferencesAndThrowsWhenEmpty) {
  InlineFunction<void(std::string&, std::unique_ptr<int>), 32> f = [](std::string& text, auto number) {
    text += std::to_string(*number);
  };
  std::string text = "no ";
  f(text, std::make_unique<int>(5));
  EXPECT_EQ(text, "no 5");
  f = nullptr;
  EXPECT_THROW(f(text, nullptr), std::bad_function_call);
}

TEST(FunctionRefTest, CallsTheOneItRefersTo) {
  int calls = 0;
  auto count = [&calls, own = 0](int by) mutable { return calls += by, own += by; };
  const auto twice = [](FunctionRef<int(int)> f) { return f(1) + f(2); };
  EXPECT_EQ(twice(count), 1 + 3);
  EXPECT_EQ(twice(count), 4 + 6);
  EXPECT_EQ(calls, 6);
  EXPECT_EQ(twice([](int i) { return 10 * i; }), 30);
}

TEST(LabelTest, SharesATextAndPointsToALiteral) {
  constexpr const char* kLiteral = "a literal";
  EXPECT_EQ(Label(kLiteral).text().data(), kLiteral);
  Label copy;
  {
    const Label label = std::string("a text made here, longer than small ones");
    copy = label;
    EXPECT_EQ(copy.text().data(), label.text().data());
  }
  EXPECT_EQ(copy.text(), "a text made here, longer than small ones");
}

}  // namespace
}  // namespace sluice
