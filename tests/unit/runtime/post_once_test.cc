#include "runtime/post_once.h"

#include <gtest/gtest.h>

#include <vector>

#include "unit/recording_network.h"

namespace sluice::runtime {
namespace {

// A loop that keeps its tasks until the test runs them.
class KeepingLoop final : public transport::Loop {
 public:
  bool Post(Task task) override {
    if (!ended) tasks.push_back(std::move(task));
    return !ended;
  }
  const std::vector<std::string>& addresses() const override { return none_; }
  void RunAll() {
    for (Task& task : std::exchange(tasks, {})) task(Time{}, network_);
  }
  std::vector<Task> tasks;
  bool ended = false;

 private:
  const std::vector<std::string> none_;
  sluice::testing::RecordingNetwork network_;
};

TEST(PostOnceTest, ATaskThatWaitsToRunIsNotPostedAgain) {
  KeepingLoop loop;
  const PostOnce post;
  int ran = 0;
  const auto task = [&ran](Time) { ++ran; };
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(post(loop, task));
  EXPECT_EQ(loop.tasks.size(), 1u);
  loop.RunAll();
  EXPECT_EQ(ran, 1);
  EXPECT_TRUE(post(loop, task));
  loop.RunAll();
  EXPECT_EQ(ran, 2);
}

TEST(PostOnceTest, ATaskMayPostTheNextOne) {
  KeepingLoop loop;
  const PostOnce post;
  post(loop, [&](Time) { post(loop, [](Time) {}); });
  loop.RunAll();
  EXPECT_EQ(loop.tasks.size(), 1u);
}

TEST(PostOnceTest, AnEndedLoopIsToldEachTime) {
  KeepingLoop loop;
  loop.ended = true;
  const PostOnce post;
  EXPECT_FALSE(post(loop, [](Time) {}));
  EXPECT_FALSE(post(loop, [](Time) {}));
}

}  // namespace
}  // namespace sluice::runtime
