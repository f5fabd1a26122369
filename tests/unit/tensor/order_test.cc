// Random programs over two contexts give what a program that runs one operation after the other gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/rng.h"
#include "sluice/ndarray.h"
#include "tensor/access.h"
#include "unit/tensor/gate.h"

namespace sluice {
namespace {

// Some rows of array number `array`.
struct Part {
  size_t array;
  int64_t begin, end;
};

class Program {
 public:
  explicit Program(uint64_t seed) : rng_(seed), columns_(rng_.Chance(0.2) ? 3000 : 1 + Below(30)) {
    for (size_t i = 0; i < kArrays; ++i) {
      arrays_.emplace_back(Shape{kRows, columns_}, cpu(static_cast<int>(i % 2)));
      model_.emplace_back(static_cast<size_t>(kRows * columns_), 0.0);
    }
  }

  void Run(int operations) {
    Gate gates[2];
    for (int i = 0; i < 2; ++i) {  // everything is issued before anything runs
      EnqueueOn(cpu(i), "gate", std::vector<Event>{gates[i].event()}, [] {});
    }
    const int open_first = static_cast<int>(Below(2));
    for (int i = 0; i < operations; ++i) {
      Step();
      if (i == operations / 2) gates[open_first].Open();
    }
    gates[1 - open_first].Open();
    for (size_t i = 0; i < kArrays; ++i) ExpectAsModel({i, 0, kRows});
    for (const auto& [array, expected] : taken_) ExpectValues(array, expected);
  }

 private:
  static constexpr size_t kArrays = 6;
  static constexpr int64_t kRows = 6;

  int64_t Below(int64_t n) { return static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(n))); }
  Part RandomPart() {
    const int64_t begin = Below(kRows), end = begin + 1 + Below(kRows - begin);
    return {rng_.Below(kArrays), begin, end};
  }
  // As many rows as `part` of some array on its context, or on any; not overlapping it otherwise than wholly.
  Part Partner(const Part& part, bool any_context) {
    const size_t array = any_context ? rng_.Below(kArrays) : (part.array + 2 * rng_.Below(3)) % kArrays;
    if (array == part.array) return part;
    const int64_t rows = part.end - part.begin, begin = Below(kRows - rows + 1);
    return {array, begin, begin + rows};
  }
  NDArray View(const Part& part) const { return arrays_[part.array].SliceRows(part.begin, part.end); }
  std::span<double> Model(const Part& part) {
    return std::span(model_[part.array])
        .subspan(static_cast<size_t>(part.begin * columns_),
                 static_cast<size_t>((part.end - part.begin) * columns_));
  }
  // to = f(to, from), every element rounded to float32.
  template <typename F>
  void Apply(const Part& to, const Part& from, F f) {
    const std::span<double> target = Model(to), source = Model(from);
    for (size_t i = 0; i < target.size(); ++i) target[i] = static_cast<float>(f(target[i], source[i]));
  }

  void Step() {
    const Part to = RandomPart(), from = Partner(to, false), anywhere = Partner(to, true);
    NDArray target = View(to);
    switch (Below(9)) {
      case 0: {
        const auto value = static_cast<double>(Below(100));
        target.Fill(value);
        return Apply(to, to, [=](double, double) { return value; });
      }
      case 1:
        target += View(from);
        return Apply(to, from, [](double a, double b) { return a + b; });
      case 2:
        target -= View(from);
        return Apply(to, from, [](double a, double b) { return a - b; });
      case 3:
        target *= -0.75f;
        return Apply(to, to, [](double a, double) { return a * -0.75; });
      case 4:
        (target * View(from)).CopyTo(&target);
        return Apply(to, from, [](double a, double b) { return static_cast<float>(a * b); });
      case 5:
        View(anywhere).CopyTo(&target);
        return Apply(to, anywhere, [](double, double b) { return b; });
      case 6:
        target += View(anywhere).AsInContext(target.context()) * 0.5f;
        return Apply(to, anywhere, [](double a, double b) { return a + static_cast<float>(0.5 * b); });
      case 7: {  // a reader whose result is looked at in the end
        const std::span<double> now = Model(anywhere);
        taken_.emplace_back(View(anywhere).AsInContext(cpu(static_cast<int>(Below(2)))).Copy(),
                            std::vector<double>(now.begin(), now.end()));
        return;
      }
      default: {  // a write from outside, as the network's is
        const Event done = EnqueueOn(cpu(static_cast<int>(Below(2))), "outside", PendingUses(target),
                                     [bytes = MutableHostBytes(target), storage = target.storage()] {
                                       std::memset(bytes.data(), 0, bytes.size());
                                     });
        SetWriter(target, done);
        return Apply(to, to, [](double, double) { return 0; });
      }
    }
  }

  void ExpectAsModel(const Part& part) {
    const std::span<double> expected = Model(part);
    ExpectValues(View(part), {expected.begin(), expected.end()});
  }
  static void ExpectValues(const NDArray& array, const std::vector<double>& expected) {
    const std::vector<float> actual = array.ToVector();
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      if (std::isnan(expected[i])) {
        ASSERT_TRUE(std::isnan(actual[i])) << i;
      } else {
        ASSERT_EQ(actual[i], expected[i]) << i;
      }
    }
  }

  Rng rng_;
  const int64_t columns_;
  std::vector<NDArray> arrays_;
  std::vector<std::vector<double>> model_;
  std::vector<std::pair<NDArray, std::vector<double>>> taken_;
};

TEST(OrderTest, RandomProgramsRunAsIfOneAfterTheOther) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Program(seed).Run(60);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(OrderTest, OperationsReturnBeforeTheyRun) {
  Gate gate;
  NDArray a({2}), b({2}, cpu(1));
  WaitAll();  // the write that SetWriter tells of comes after the zeros
  SetWriter(a, gate.event());
  const NDArray c = a + a;
  a.CopyTo(&b);
  EXPECT_FALSE(ReadyToRead(c).Done());
  EXPECT_FALSE(ReadyToRead(b).Done());
  gate.Open();
  b.WaitToRead();
  c.WaitToRead();
}

TEST(OrderTest, AWriteFromOutsideWaitsForTheReadersSoFar) {
  Gate gate;
  NDArray a({2});
  WaitAll();
  for (const Event& use : PendingUses(a)) EXPECT_TRUE(use.Done());
  AddReader(a, gate.event());
  a.Fill(1);
  EXPECT_FALSE(ReadyToRead(a).Done());
  gate.Open();
  EXPECT_THAT(a.ToVector(), ::testing::Each(1));
}

}  // namespace
}  // namespace sluice
