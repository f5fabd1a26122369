#include "worker/store/dist_store.h"

#include <gmock/gmock.h>

#include "unit/expect_error.h"

namespace sluice::worker {
namespace {

using ::testing::HasSubstr;

// Has ended: takes nothing.
class EndedLoop final : public transport::Loop {
 public:
  bool Post(Task) override { return false; }
  const std::vector<std::string>& addresses() const override { return addresses_; }

 private:
  std::vector<std::string> addresses_;
};

// With the default timeout of ten minutes: the test's own is shorter.
TEST(DistStore, NobodyWaitsForAWorkerThatHasLeft) {
  DistStore store({.type = "dist_sync", .num_workers = 2}, std::make_shared<Client>(ClientOptions{}),
                  std::make_shared<EndedLoop>(), collective::MakeHostReducer(1));
  EXPECT_THAT(ErrorOf(ErrorCode::kCancelled, [&] { store.Barrier(BarrierGroup::kWorkers, 600s); }),
              HasSubstr("has left"));
  EXPECT_THAT(ErrorOf(ErrorCode::kCancelled, [&] { store.Init("w", NDArray({2})); }), HasSubstr("has left"));
}

TEST(CallBatch, EveryCallHearsThatTheWorkerHasLeft) {
  const ClientLoop ended{std::make_shared<Client>(ClientOptions{}), std::make_shared<EndedLoop>()};
  for (const size_t keys : {1, 2, 3}) {
    std::vector<Event> ends;
    {
      CallBatch calls(ended, keys, false, HeapAllocator());
      for (size_t i = 0; i < keys; ++i) {
        ends.push_back(Event::Make(std::string("push")));
        calls.Add(NewOperation(HeapAllocator(), OpKind::kPush), 1s, ends.back());
      }
    }
    for (const Event& end : ends)
      EXPECT_THAT(ErrorOf(ErrorCode::kCancelled, [&] { end.Wait(0s); }),
                  HasSubstr("push: this worker has left"));
  }
}

}  // namespace
}  // namespace sluice::worker
