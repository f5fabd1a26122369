// Tests what train_bench records of a step: the table of its keys, sums by operation, and that every
// operation of the default devices is heard of.
#include "step_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profile.h"
#include "sluice/error.h"
#include "sluice/ndarray.h"
#include "unit/expect_error.h"

namespace sluice::bench {
namespace {

using ::testing::HasSubstr;
using worker::Stage;

Time At(int64_t microseconds) {
  return Time(std::chrono::microseconds(microseconds));
}

Operation Ran(const char* what, Time ready, Time began, Time ended) {
  Operation operation;
  operation.what = what;
  operation.ready = ready;
  operation.began = began;
  operation.ended = ended;
  return operation;
}

// Four steps of 100 us: forward [0, 30), backward [30, 60); key a is written at 40, leaves at 45 and is there
// at 105, when the next forward has come to it at 100; key b at 60, 62 and 90, and nobody waits for it.
void Play(StepTrace& trace) {
  for (int64_t step = 0; step < 4; ++step) {
    const int64_t begin = 1000 + 100 * step;
    const auto round = static_cast<uint64_t>(7 + step);
    trace.OnOperation(Ran("step begins", At(begin), At(begin), At(begin)));
    Operation forward = Ran("forward", At(begin), At(begin), At(begin + 30));
    if (step > 0)
      forward.waits = {{"push_pull of key a", At(begin + 5)}, {"push_pull of key b", At(begin - 10)}};
    trace.OnOperation(forward);
    trace.OnOperation(Ran("backward", At(begin + 30), At(begin + 30), At(begin + 60)));
    trace.OnStage(At(begin + 40), Stage::kReduce, 0, round, 4);
    trace.OnStage(At(begin + 44), Stage::kPush, 0, round, 2);  // two parts: the last counts
    trace.OnStage(At(begin + 45), Stage::kPush, 0, round, 2);
    trace.OnStage(At(begin + 70), Stage::kWait, 0, round, 2);  // b's value comes without an acknowledgement
    trace.OnStage(At(begin + 105), Stage::kDeliver, 0, round, 4);
    trace.OnStage(At(begin + 60), Stage::kReduce, 1, round, 4);
    trace.OnStage(At(begin + 62), Stage::kPush, 1, round, 4);
    trace.OnStage(At(begin + 90), Stage::kDeliver, 1, round, 4);
  }
}

TEST(StepTrace, TellsWhatEachKeyDidAndWhoWaitedForIt) {
  StepTrace trace;
  trace.OnOperation(Ran("before", At(0), At(0), At(900)));
  trace.Start();
  Play(trace);
  const std::string report = trace.Report({"a", "b"});
  EXPECT_THAT(report, HasSubstr("| a | 40 | 45 | 70 | 105 | 100 | 5 |\n"));
  EXPECT_THAT(report, HasSubstr("| b | 60 | 62 | 90 | 90 | 100 | 0 |\n"));
  EXPECT_THAT(report, HasSubstr("Backward ends at 60, the next step begins at 100."));
  EXPECT_THAT(report, HasSubstr("Pushes that left before backward ended: 1 of 2."));
  EXPECT_THAT(report, HasSubstr("waits together: 5."));
}

TEST(StepTrace, RefusesTooLittle) {
  StepTrace trace;
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { trace.Report({"a"}); }), HasSubstr("0 steps"));
  Play(trace);
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { trace.Report({"a"}); }), HasSubstr("2 keys"));
}

TEST(Profile, AddsUpByOperation) {
  Profile profile;
  profile.OnOperation(Ran("a", At(0), At(0), At(10)));
  profile.OnOperation(Ran("b", At(0), At(10), At(40)));
  profile.OnOperation(Ran("a", At(0), At(50), At(60)));
  EXPECT_EQ(profile.Table(2, std::chrono::microseconds(100)),
            "| operation | calls per step | us per step | of the step |\n|---|---|---|---|\n"
            "| b | 0.5 | 15.0 | 30.0 % |\n"
            "| a | 1 | 10.0 | 20.0 % |\n"
            "| between operations | 1.5 | 25.0 | 50.0 % |\n"
            "| step | 1.5 | 50.0 | 100.0 % |\n");
}

TEST(StreamWatch, HearsOfEveryOperationOfTheDefaultDevices) {
  const auto profile = std::make_shared<Profile>();
  UseDevices(1, profile);
  {
    NDArray array({4});
    array += NDArray({4});
    array.WaitToRead();
    EXPECT_EQ(array.ToVector(), std::vector<float>(4, 0.0f));
  }
  Devices::SetDefault(nullptr);
  std::vector<std::string> heard;
  for (const Profile::Row& row : profile->rows()) heard.push_back(row.what);
  EXPECT_THAT(heard, ::testing::Contains("+="));
}

}  // namespace
}  // namespace sluice::bench
