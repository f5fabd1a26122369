#include "machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost.h"
#include "profile.h"
#include "tensor/devices.h"
#include "train_load.h"

namespace sluice::bench {
namespace {

TEST(Machine, HasLimits) {
  const Limits limits = MeasureLimits();
  EXPECT_GT(limits.gflops, 0);
  EXPECT_GT(limits.memory_gbytes, 0);
  EXPECT_GT(limits.cache_gbytes, 0);
}

TEST(Machine, CountsHowOftenThreadsSleep) {
  const auto total = [] {
    uint64_t all = 0;
    for (const auto& [thread, count] : VoluntarySwitches()) all += count;
    return all;
  };
  const uint64_t before = total();
  Event event = Event::Make("never");
  EXPECT_FALSE(event.DoneWithin(std::chrono::milliseconds(1)));  // sleeps
  EXPECT_GT(total(), before);
}

TEST(Costs, OfOneCallAddUpUntilTheyAreTaken) {
  TakeCost();
  AddCost(1, 2, "first");
  AddCost(10, 20, "second");
  const Cost cost = TakeCost();
  EXPECT_EQ(cost.flops, 11);
  EXPECT_EQ(cost.bytes, 22);
  EXPECT_EQ(cost.shape, "first");
  EXPECT_EQ(TakeCost().shape, "");
}

Profile::Row RowOf(const Profile& profile, const std::string& what, const std::string& shape) {
  for (Profile::Row row : profile.rows(true)) {
    if (row.what == what && row.shape == shape) return row;
  }
  ADD_FAILURE() << "no " << what << " of " << shape;
  return {};
}

// LeNet's second convolution: 20 to 50 channels, 12x12 to 8x8 pixels, windows of 5x5; and its first dense
// layer, 800 to 500.
TEST(Costs, OfATrainingStepAreThoseOfItsShapes) {
  const auto profile = std::make_shared<Profile>();
  UseDevices(1, profile);
  {
    TrainLoad load({.network = "lenet", .batch_size = 2});
    load.Run(1);
    profile->Clear();
    load.Run(3);
  }
  Devices::SetDefault(nullptr);
  constexpr double kProducts = 2.0 * 2 * 50 * 8 * 8 * 20 * 5 * 5,
                   kFloats = 2.0 * 20 * 12 * 12 + 50.0 * 20 * 5 * 5 + 2.0 * 50 * 8 * 8;
  for (const char* what : {"Conv2D", "Conv2D backward", "Conv2D backward (weights)"}) {
    const Profile::Row row = RowOf(*profile, what, "2x20x12x12 to 50, 5x5");
    EXPECT_EQ(row.calls, 3u) << what;
    EXPECT_EQ(row.flops, 3 * kProducts) << what;
    EXPECT_EQ(row.bytes, 3 * 4 * kFloats) << what;
  }
  const Profile::Row dense = RowOf(*profile, "Dense", "2x800 to 500");
  EXPECT_EQ(dense.flops, 3 * 2.0 * 2 * 800 * 500);
  const Profile::Row sgd = RowOf(*profile, "sgd", "400000");
  EXPECT_EQ(sgd.bytes, 3 * 5 * 4.0 * 400'000);
  uint64_t calls = 0;
  for (const Profile::Row& row : profile->rows()) calls += row.calls;
  for (const Profile::Row& row : profile->rows(true)) calls -= row.calls;
  EXPECT_EQ(calls, 0u);
}

}  // namespace
}  // namespace sluice::bench
