// Tests tensor/stream.h: a stream runs its work in order, and a failure skips exactly what depends on it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "tensor/devices.h"
#include "unit/expect_error.h"
#include "unit/tensor/gate.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(StreamTest, RunsInOrderAndReturnsAtOnce) {
  const auto device = MakeCpuDevice(0, {1});
  Gate gate;
  std::vector<int> ran;
  const Event behind[] = {gate.event()};
  const Event first = device->stream().Enqueue("first", behind, [&] { ran.push_back(1); });
  const Event second = device->stream().Enqueue("second", {}, [&] { ran.push_back(2); });
  EXPECT_FALSE(second.Done());
  EXPECT_THAT(ErrorOf(ErrorCode::kDeadlineExceeded, [&] { second.Wait(1ms); }), HasSubstr("second"));
  gate.Open();
  second.Wait(1min);
  EXPECT_TRUE(first.Done());
  EXPECT_THAT(ran, ElementsAre(1, 2));
}

TEST(StreamTest, StreamsDoNotWaitForEachOther) {
  const auto slow = MakeCpuDevice(0, {1}), quick = MakeCpuDevice(1, {1});
  Gate gate;
  const Event behind[] = {gate.event()};
  const Event held = slow->stream().Enqueue("held", behind, [] {});
  quick->stream().Enqueue("free", {}, [] {}).Wait(1min);
  EXPECT_FALSE(held.Done());
  gate.Open();
  held.Wait(1min);
}

TEST(StreamTest, AFailureSkipsWhatNeedsItAndNothingElse) {
  const auto device = MakeCpuDevice(0, {1});
  bool skipped = true, went_on = false;
  const Event failed =
      device->stream().Enqueue("conv1", {}, [] { throw Error(ErrorCode::kInvalidArgument, "a bad label"); });
  const Event needs[] = {failed};
  const Event next = device->stream().Enqueue("tanh1", needs, [&] { skipped = false; });
  const Event unrelated = device->stream().Enqueue("other", {}, [&] { went_on = true; });
  // Named once, by the operation that failed.
  EXPECT_EQ(ErrorOf(ErrorCode::kInvalidArgument, [&] { next.Wait(1min); }), "operation conv1: a bad label");
  EXPECT_EQ(ErrorOf(ErrorCode::kInvalidArgument, [&] { failed.Wait(1min); }), "operation conv1: a bad label");
  unrelated.Wait(1min);
  EXPECT_TRUE(skipped);
  EXPECT_TRUE(went_on);
  device->stream().Drain(1min);  // whose failures are others' business
}

TEST(StreamTest, AnyExceptionEndsUpInTheEvent) {
  const auto device = MakeCpuDevice(0, {1});
  EXPECT_THAT(
      ErrorOf(
          ErrorCode::kUnavailable,
          [&] {
            device->stream().Enqueue("update", {}, [] { throw std::out_of_range("no such key"); }).Wait(1min);
          }),
      HasSubstr("operation update: no such key"));
  EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable,
                      [&] { device->stream().Enqueue("update", {}, [] { throw 7; }).Wait(1min); }),
              HasSubstr("operation update"));
}

TEST(StreamTest, DrainWaitsForEverythingUpToItsDeadline) {
  const auto device = MakeCpuDevice(0, {1});
  Gate gate;
  const Event behind[] = {gate.event()};
  const Event work = device->stream().Enqueue("work", behind, [] {});
  ErrorOf(ErrorCode::kDeadlineExceeded, [&] { device->stream().Drain(1ms); });
  gate.Open();
  device->stream().Drain(1min);
  EXPECT_TRUE(work.Done());
}

TEST(StreamTest, TakesWorkFromManyThreads) {
  const auto device = MakeCpuDevice(0, {1});
  constexpr int kThreads = 4, kEach = 500;
  std::vector<std::vector<int>> ran(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i)
        device->stream().Enqueue("note", {}, [&, t, i] { ran[t].push_back(i); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  device->stream().Drain(1min);
  std::vector<int> in_order(kEach);
  std::iota(in_order.begin(), in_order.end(), 0);
  for (const auto& mine : ran) EXPECT_EQ(mine, in_order);
}

}  // namespace
}  // namespace sluice
