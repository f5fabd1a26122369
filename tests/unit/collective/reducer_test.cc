// Tests collective/reducer.h: sums over devices are taken in the order of the list, whatever the timing.
// References are float32 sums written out in that order.
#include "collective/reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/rng.h"
#include "tensor/access.h"
#include "tensor/types/half.h"
#include "unit/expect_error.h"
#include "unit/tensor/gate.h"

namespace sluice::collective {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Kind {
  const char* name;
  std::unique_ptr<Reducer> (*make)();
};
void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

class ReducerTest : public ::testing::TestWithParam<Kind> {
 protected:
  template <typename T>
  std::vector<T> Sum(const std::vector<std::vector<T>>& terms, Context context = cpu(0)) {
    const Shape shape = {static_cast<int64_t>(terms[0].size())};
    std::vector<NDArray> values;
    for (size_t i = 0; i < terms.size(); ++i) {
      values.push_back(
          NDArray::From(std::span<const T>(terms[i]), shape, cpu(static_cast<int>((i + 1) % 3))));
    }
    NDArray out = NDArray::Empty(shape, context, DTypeOf<T>::value);
    reducer_->Reduce(values, &out);
    return out.ToVector<T>();
  }
  const std::unique_ptr<Reducer> reducer_ = GetParam().make();
};
INSTANTIATE_TEST_SUITE_P(Reducers, ReducerTest,
                         ::testing::Values(Kind{"Host", [] { return MakeHostReducer(1); }},
                                           Kind{"HostThreads", [] { return MakeHostReducer(3); }},
                                           Kind{"Device", [] { return MakeDeviceReducer(); }}),
                         ::testing::PrintToStringParamName());

// `terms` arrays of `n` random elements.
template <typename T>
std::vector<std::vector<T>> Terms(size_t terms, size_t n, Rng* rng, const std::function<T(Rng*)>& draw) {
  std::vector<std::vector<T>> all(terms, std::vector<T>(n));
  for (auto& term : all) {
    for (T& value : term) value = draw(rng);
  }
  return all;
}

// A float32 sum in the order of the list: one float64 addition, rounded, is the float32 addition.
float OrderedSum(const std::vector<double>& terms) {
  auto sum = static_cast<float>(terms[0]);
  for (size_t i = 1; i < terms.size(); ++i) sum = static_cast<float>(sum + terms[i]);
  return sum;
}

TEST_P(ReducerTest, SumsFloatsInTheOrderOfTheList) {
  Rng rng(1);
  for (const size_t count : {1, 2, 3, 8}) {
    for (const size_t n : {1, 17, 4096, 50001}) {
      // The terms differ so much in size that another order would round differently.
      const auto terms = Terms<float>(count, n, &rng, [](Rng* r) {
        return static_cast<float>(std::ldexp(r->Normal(), static_cast<int>(r->Below(30))));
      });
      const std::vector<float> actual = Sum(terms, cpu(static_cast<int>(count % 2)));
      for (size_t i = 0; i < n; ++i) {
        std::vector<double> column;
        for (const auto& term : terms) column.push_back(term[i]);
        ASSERT_EQ(actual[i], OrderedSum(column)) << count << " terms, element " << i;
      }
    }
  }
}

TEST_P(ReducerTest, SumsSixteenBitFloatsInFloat32AndRoundsOnce) {
  Rng rng(2);
  for (const size_t n : {1, 1023, 1024, 5000}) {
    const auto halves =
        Terms<Half>(5, n, &rng, [](Rng* r) { return HalfFromFloat(static_cast<float>(r->Normal())); });
    const auto bfloats = Terms<BFloat16>(
        5, n, &rng, [](Rng* r) { return BFloat16FromFloat(static_cast<float>(r->Normal())); });
    const std::vector<Half> half_sum = Sum(halves);
    const std::vector<BFloat16> bfloat_sum = Sum(bfloats);
    for (size_t i = 0; i < n; ++i) {
      std::vector<double> half_column, bfloat_column;
      for (size_t t = 0; t < 5; ++t) {
        half_column.push_back(ToFloat(halves[t][i]));
        bfloat_column.push_back(ToFloat(bfloats[t][i]));
      }
      ASSERT_EQ(half_sum[i].bits, HalfFromFloat(OrderedSum(half_column)).bits) << i;
      ASSERT_EQ(bfloat_sum[i].bits, BFloat16FromFloat(OrderedSum(bfloat_column)).bits) << i;
    }
  }
  // 2048 + 1 + 1 is 2050 in float32; in halves each 1 would be lost to rounding.
  const Half large = HalfFromFloat(2048), one = HalfFromFloat(1);
  EXPECT_EQ(ToFloat(Sum<Half>({{large}, {one}, {one}})[0]), 2050);
  // 65504 + 65504 - 65504: no infinity on the way.
  const Half most = HalfFromFloat(65504), least = HalfFromFloat(-65504);
  EXPECT_EQ(ToFloat(Sum<Half>({{most}, {most}, {least}})[0]), 65504);
}

TEST_P(ReducerTest, SumsTheOtherTypes) {
  EXPECT_THAT(Sum<double>({{0.1, 1e300}, {0.2, 1}, {0.3, -1e300}}), ElementsAre((0.1 + 0.2) + 0.3, 0));
  EXPECT_THAT(Sum<int32_t>({{1, -5, INT32_MAX}, {2, 3, 1}}), ElementsAre(3, -2, INT32_MIN));
  EXPECT_THAT(Sum<int64_t>({{int64_t{1} << 60, INT64_MIN}, {1, -1}}),
              ElementsAre((int64_t{1} << 60) + 1, INT64_MAX));
  EXPECT_THAT(Sum<uint8_t>({{250, 1}, {10, 2}}), ElementsAre(4, 3));
}

TEST_P(ReducerTest, EmptyArraysAndSingleOnes) {
  EXPECT_THAT(Sum<float>({{}, {}}), IsEmpty());
  EXPECT_THAT(Sum<Half>({{}, {}}), IsEmpty());
  EXPECT_THAT(Sum<float>({{1, 2}}), ElementsAre(1, 2));
  EXPECT_EQ(Sum<BFloat16>({{BFloat16{0x3f81}}})[0].bits, 0x3f81);
}

TEST_P(ReducerTest, LargeArrays) {
  const size_t n = (size_t{3} << 20) + 7;  // enough for every thread, and a rest
  std::vector<std::vector<float>> terms(3, std::vector<float>(n));
  for (size_t t = 0; t < 3; ++t) {
    for (size_t i = 0; i < n; ++i) terms[t][i] = static_cast<float>((i + t) % 1000);
  }
  const std::vector<float> actual = Sum(terms);
  for (size_t i = 0; i < n; ++i) {
    ASSERT_EQ(actual[i], static_cast<float>(i % 1000 + (i + 1) % 1000 + (i + 2) % 1000)) << i;
  }
}

// Which float16 numbers are not when there are two of them.
TEST_P(ReducerTest, ASumIsHalvedAsOftenAsItsTermsNeed) {
  for (const size_t terms : {size_t{2}, size_t{3}, size_t{8}, size_t{9}}) {
    const uint32_t exponent = ExponentOfSum(DType::kFloat16, terms);
    std::vector<NDArray> values;
    for (size_t i = 0; i < terms; ++i) {
      values.push_back(NDArray::From({65504, -65504, 3, 0x1p-14f}, {4}, cpu(static_cast<int>(i % 3)))
                           .AsType(DType::kFloat16));
    }
    NDArray out = NDArray::Empty({4}, cpu(0), DType::kFloat16);
    reducer_->Reduce(values, &out, exponent);
    const float n = static_cast<float>(terms), by = std::ldexp(1.0f, -static_cast<int>(exponent));
    const NDArray expected =
        NDArray::From({65504 * n * by, -65504 * n * by, 3 * n * by, n * 0x1p-14f * by}, {4});
    EXPECT_EQ(out.AsType(DType::kFloat32).ToVector(),
              expected.AsType(DType::kFloat16).AsType(DType::kFloat32).ToVector());
    EXPECT_TRUE(std::isfinite(out.AsType(DType::kFloat32).ToVector()[0])) << terms;
  }
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt32})
    EXPECT_EQ(ExponentOfSum(dtype, 8), 0u);
  EXPECT_EQ(ExponentOfSum(DType::kFloat16, 1), 0u);
}

TEST_P(ReducerTest, IsOfTheListsOrderWhateverTheTimingOfTheDevices) {
  const std::vector<std::vector<float>> terms = {{1e8f}, {3}, {-1e8f}, {5}};
  const float in_order = OrderedSum({1e8, 3, -1e8, 5});
  for (int last = 0; last < 4; ++last) {
    Gate gate;
    std::vector<NDArray> values;
    for (int i = 0; i < 4; ++i) {
      values.push_back(NDArray({1}, cpu(i)));
      if (i == last) EnqueueOn(cpu(i), "gate", std::vector<Event>{gate.event()}, [] {});
      values.back().Fill(terms[static_cast<size_t>(i)][0]);
    }
    NDArray out({1}, cpu_pinned(0));
    reducer_->Reduce(values, &out);
    EXPECT_FALSE(ReadyToRead(out).Done());
    gate.Open();
    EXPECT_EQ(out.ToScalar(), in_order) << last;
  }
}

TEST_P(ReducerTest, LaterWritesWaitForTheSum) {
  Gate gate;
  NDArray a = NDArray::From({1, 2}, {2}), b = NDArray::From({10, 20}, {2}, cpu(1)), out({2}, cpu(2));
  EnqueueOn(cpu(2), "gate", std::vector<Event>{gate.event()}, [] {});
  reducer_->Reduce({a, b}, &out);
  a.Fill(100);
  b.Fill(100);
  EXPECT_FALSE(ReadyToRead(a).Done());
  gate.Open();
  EXPECT_THAT(out.ToVector(), ElementsAre(11, 22));
  EXPECT_THAT(a.ToVector(), Each(100));
}

TEST_P(ReducerTest, AFailedRoundDoesNotSpoilTheNext) {
  NDArray out({2}, cpu_pinned(0)), lost({2}, cpu(1));
  SetWriter(lost, EnqueueOn(cpu(1), "backward", {}, [] { throw Error(ErrorCode::kInvalidArgument, "bad"); }));
  reducer_->Reduce({NDArray({2}), lost}, &out);
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { out.WaitToRead(); }), HasSubstr("backward: bad"));
  lost.Fill(4);
  reducer_->Reduce({NDArray::From({1, 2}, {2}), lost}, &out);
  EXPECT_THAT(out.ToVector(), ElementsAre(5, 6));
}

TEST_P(ReducerTest, RefusesWhatDoesNotFit) {
  NDArray out({2}), longer({3}), doubles({2}, cpu(0), DType::kFloat64), a({2});
  const auto refusal = [&](const std::vector<NDArray>& values) {
    return ErrorOf(ErrorCode::kInvalidArgument, [&] { reducer_->Reduce(values, &out); });
  };
  EXPECT_THAT(refusal({}), HasSubstr("no arrays"));
  EXPECT_THAT(refusal({a, longer}), AllOf(HasSubstr("float32 [3]"), HasSubstr("does not fit float32 [2]")));
  EXPECT_THAT(refusal({doubles, a}), HasSubstr("float64 [2]"));
  EXPECT_THAT(refusal({a, out}), HasSubstr("[2] would overwrite one of the arrays"));
  EXPECT_THAT(refusal({out, a}), HasSubstr("[2] would overwrite one of the arrays"));
}

TEST_P(ReducerTest, BroadcastsToEveryDeviceAndItself) {
  const NDArray value = NDArray::From({1, 2, 3}, {3}, cpu(1));
  const std::vector<NDArray> outs = {NDArray({3}), value, NDArray({3}, cpu(1)), NDArray({3}, cpu(2))};
  reducer_->Broadcast(value, outs);
  for (const NDArray& out : outs) EXPECT_THAT(out.ToVector(), ElementsAre(1, 2, 3));
  reducer_->Broadcast(value, {});
}

TEST(HostReducerTest, KeepsSumsBesideThoseThatCompute) {
  EXPECT_EQ(MakeHostReducer(1)->Place({cpu(0), cpu(1)}, 100), cpu_pinned(0));
  EXPECT_EQ(MakeHostReducer(1)->Place({gpu(1), gpu(0)}, 100), cpu_pinned(1));
  EXPECT_EQ(MakeHostReducer(1)->Place({cpu(1)}, 100), cpu(1));
}

TEST(DeviceReducerTest, SpreadsKeysByTheirBytes) {
  const auto reducer = MakeDeviceReducer();
  const std::vector<Context> contexts = {cpu(1), cpu(0)};
  EXPECT_EQ(reducer->Place(contexts, 100), cpu(0));  // none has more: the first
  EXPECT_EQ(reducer->Place(contexts, 30), cpu(1));
  EXPECT_EQ(reducer->Place(contexts, 60), cpu(1));
  EXPECT_EQ(reducer->Place(contexts, 20), cpu(1));  // 90 against 100
  EXPECT_EQ(reducer->Place(contexts, 1), cpu(0));   // 110 against 100
  EXPECT_EQ(reducer->Place({cpu(2), cpu(0)}, 1), cpu(2));
}

}  // namespace
}  // namespace sluice::collective
