// What becomes of an error inside an operation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/ndarray.h"
#include "tensor/access.h"
#include "unit/expect_error.h"
#include "unit/tensor/gate.h"

namespace sluice {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// An array whose contents will never come.
NDArray Doomed(Gate& gate, Context context = cpu(0)) {
  NDArray array({2}, context);
  const Event behind[] = {gate.event()};
  SetWriter(array, EnqueueOn(context, "landing", behind, [] {}));
  return array;
}

TEST(FailureTest, SurfacesAtTheWaitAndNamesTheOperation) {
  NDArray a({2});
  SetWriter(a, EnqueueOn(cpu(0), "conv1", {}, [] { throw Error(ErrorCode::kInvalidArgument, "bad label"); }));
  const NDArray b = a + NDArray({2}), c = (b * 2).AsInContext(cpu(1));  // returns at once, throws nothing
  for (const NDArray& array : {a, b, c}) {
    EXPECT_EQ(ErrorOf(ErrorCode::kInvalidArgument, [&] { array.WaitToRead(); }),
              "operation conv1: bad label");
    EXPECT_EQ(ErrorOf(ErrorCode::kInvalidArgument, [&] { array.ToVector(); }), "operation conv1: bad label");
  }
}

TEST(FailureTest, InPlaceKeepsTheError) {
  Gate gate;
  NDArray a = Doomed(gate);
  a += NDArray({2});
  a *= 2;
  gate.Fail("lost");
  EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { a.WaitToRead(); }),
              HasSubstr("operation landing: lost"));
}

// Returns a doomed array after write(array), which comes before or after the failure is known.
template <typename Write>
NDArray WrittenThoughDoomed(bool known, Write write) {
  Gate gate;
  NDArray array = Doomed(gate);
  if (known) {
    gate.Fail("lost");
    WaitAll();
  }
  write(array);
  if (!known) gate.Fail("lost");
  return array;
}

TEST(FailureTest, AFreshWriteReplacesAFailedOne) {
  for (const bool known : {true, false}) {
    const NDArray a = WrittenThoughDoomed(known, [](NDArray& array) { array.Fill(3); });
    EXPECT_THAT(a.ToVector(), Each(3)) << known;
  }
}

TEST(FailureTest, AFreshWriteOfAPartLeavesTheRestFailed) {
  for (const bool known : {true, false}) {
    NDArray a = WrittenThoughDoomed(known, [](NDArray& array) { array.SliceRows(1, 2).Fill(3); });
    EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { a.ToVector(); }),
                HasSubstr("operation landing: lost"));
    a.Fill(3);
    a.SliceRows(1, 2).Fill(4);
    EXPECT_THAT(a.ToVector(), ElementsAre(3, 4)) << known;
  }
}

TEST(FailureTest, AReaderThatFailsDoesNotSpoilWhatItRead) {
  Gate gate;
  NDArray a = NDArray::From({1, 2}, {2});
  const NDArray sum = a.AsInContext(cpu(1)) + Doomed(gate, cpu(1));
  AddReader(a, EnqueueOn(cpu(1), "sending", std::vector<Event>{gate.event()}, [] {}));
  a.Fill(5);
  gate.Fail("lost");
  EXPECT_THAT(a.ToVector(), ElementsAre(5, 5));
  ErrorOf(ErrorCode::kUnavailable, [&] { sum.WaitToRead(); });
}

TEST(FailureTest, WritersFromOutsideWaitForTheEndOnly) {
  Gate gate;
  NDArray a = Doomed(gate);
  bool written = false;
  const Events uses = PendingUses(a);
  const Event write = EnqueueOn(cpu(1), "write", uses, [&] { written = true; });
  EXPECT_FALSE(write.Done());
  gate.Fail("lost");
  write.Wait(1min);
  EXPECT_TRUE(written);
}

TEST(FailureTest, OfOneArrayLeavesTheContextWorking) {
  Gate gate;
  const NDArray a = Doomed(gate);
  gate.Fail("lost");
  ErrorOf(ErrorCode::kUnavailable, [&] { (a + a).ToVector(); });
  EXPECT_THAT((NDArray::From({1, 2}, {2}) * 2).ToVector(), ElementsAre(2, 4));
  WaitAll();
}

}  // namespace
}  // namespace sluice
