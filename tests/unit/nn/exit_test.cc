// How a program ends whose last words were an error, while its devices still work.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "sluice/autograd.h"
#include "sluice/error.h"
#include "sluice/nn.h"

namespace sluice::nn {
namespace {

// Many convolutions forward and backward are queued when the locals of the function go.
void FailWithWorkInFlight() {
  Conv2D layer(32, 3);
  layer.CollectParams().Initialize();
  const NDArray images({16, 8, 32, 32});
  for (int i = 0; i < 20; ++i) {
    NDArray output;
    {
      const autograd::RecordScope record;
      output = layer(images);
    }
    autograd::Backward({output});
  }
  throw Error(ErrorCode::kInvalidArgument, "the step after them went wrong");
}

[[noreturn]] void EndAsMainDoes() {
  try {
    FailWithWorkInFlight();
  } catch (const Error&) {
    std::exit(2);
  }
  std::exit(0);
}

// Main's thread has seen no array.
[[noreturn]] void EndWithWorkOfAnotherThread() {
  std::thread([] {
    try {
      FailWithWorkInFlight();
    } catch (const Error&) {
    }
  }).join();
  std::exit(2);
}

TEST(ExitTest, WorkOfAThreadThatIsGoneIsDoneBeforeTheEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(EndWithWorkOfAnotherThread(), ::testing::ExitedWithCode(2), "");
}

TEST(ExitTest, AnErrorWhileWorkIsInFlightEndsInOrder) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a fork has no stream's thread
  EXPECT_EXIT(EndAsMainDoes(), ::testing::ExitedWithCode(2), "");
}

}  // namespace
}  // namespace sluice::nn
