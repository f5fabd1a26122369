#include "train/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

namespace sluice::train {
namespace {

ProgressState State() {
  return {.epoch = 1,
          .num_epochs = 10,
          .batch = 450,
          .num_batches = 938,
          .loss = 0.12344,
          .score = 0.96321,
          .samples_per_sec = 5210.4,
          .left = 42s};
}

TEST(Progress, BarFitsAnyTerminal) {
  for (int columns = 0; columns < 200; ++columns) {
    EXPECT_LE(static_cast<int>(ProgressBar(State(), columns).size()), columns);
  }
  const std::string bar = ProgressBar(State(), 100);
  EXPECT_EQ(bar.size(), 100u);
  for (const char* part :
       {"epoch 2/10 [#", ">", "450/938", "loss 0.1234", "acc 0.9632", "5,210 img/s", "0:42 left"}) {
    EXPECT_NE(bar.find(part), std::string::npos) << bar;
  }
}

TEST(Progress, PlainLinesComeEveryFewBatchesWithoutControlCharacters) {
  std::ostringstream out;
  Progress progress(out, /*terminal=*/false, 80, /*every=*/100);
  ProgressState state = State();
  for (state.batch = 1; state.batch <= 250; ++state.batch) progress.Update(Time(), state);
  progress.Say("done");
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_NE(text.find("epoch 2 batch 200/938 loss 0.1234 accuracy 0.9632 5210 images/s"), std::string::npos)
      << text;
}

TEST(Progress, TheLiveBarIsDrawnAtMostTenTimesASecondAndGivesWayToWords) {
  std::ostringstream out;
  Progress progress(out, /*terminal=*/true, 80, 1);
  ProgressState state = State();
  for (int i = 0; i < 100; ++i) progress.Update(Time() + i * 10ms, state);
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 10);
  progress.Say("epoch done");
  EXPECT_TRUE(out.str().ends_with("\r\x1b[Kepoch done\n"));
}

TEST(Progress, SaysWhatTheSamplesAre) {
  ProgressState state = State();
  state.samples = "texts";
  EXPECT_NE(ProgressBar(state, 120).find(" 5,210 texts/s "), std::string::npos) << ProgressBar(state, 120);
  EXPECT_TRUE(ProgressLine(state).ends_with(" 5210 texts/s")) << ProgressLine(state);
}

// Where infinities are subtracted the result has a sign.
TEST(Progress, ALossThatIsNoNumberHasNoSign) {
  ProgressState state = State();
  state.loss = state.score = std::copysign(std::nan(""), -1);
  EXPECT_NE(ProgressLine(state).find(" loss nan accuracy nan "), std::string::npos) << ProgressLine(state);
  EXPECT_NE(ProgressBar(state, 120).find(" loss nan acc nan "), std::string::npos) << ProgressBar(state, 120);
}

TEST(Progress, IsQuietWhereItIsToldToBe) {
  for (const bool terminal : {true, false}) {
    std::ostringstream out;
    {
      Progress progress(out, terminal, 80, /*every=*/1, /*quiet=*/true);
      progress.Update(Time(), State());
      progress.Say("done");
    }
    EXPECT_EQ(out.str(), "");
  }
}

TEST(Progress, ClockText) {
  EXPECT_EQ(ClockText(42s), "0:42");
  EXPECT_EQ(ClockText(3725s), "1:02:05");
  EXPECT_EQ(ClockText(-5s), "0:00");
}

}  // namespace
}  // namespace sluice::train
