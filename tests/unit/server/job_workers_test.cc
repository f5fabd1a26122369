// Which workers take part in rounds, and whose messages count.
#include "server/job_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::server {
namespace {

using ::testing::ElementsAre;
using wire::NodeState;
using wire::Role;

TEST(JobWorkers, TheRosterSaysWhoTakesPart) {
  JobWorkers workers;
  EXPECT_EQ(workers.count(), 1u);
  workers.Set({{.role = Role::kServer, .rank = 7, .incarnation = 5},
               {.role = Role::kWorker, .rank = 0, .incarnation = 1, .state = NodeState::kDead},
               {.role = Role::kWorker, .rank = 1, .incarnation = 2, .state = NodeState::kFinished},
               {.role = Role::kWorker, .rank = 2, .incarnation = 3}});
  EXPECT_EQ(workers.count(), 3u);
  EXPECT_THAT(workers.live(), ElementsAre(2));
  EXPECT_FALSE(workers.IsMember({Role::kWorker, 0, 1})) << "it is dead";
  EXPECT_TRUE(workers.IsMember({Role::kWorker, 1, 2})) << "its last messages may come late";
  EXPECT_TRUE(workers.IsMember({Role::kWorker, 2, 3}));
  EXPECT_FALSE(workers.IsMember({Role::kWorker, 2, 4})) << "another process";
  EXPECT_FALSE(workers.IsMember({Role::kServer, 7, 5}));
}

TEST(JobWorkers, Worker0HasLeftOnceItHasFinished) {
  JobWorkers workers;
  for (const NodeState state : {NodeState::kAlive, NodeState::kDead, NodeState::kFinished}) {
    workers.Set({{.role = Role::kWorker, .rank = 0, .state = state},
                 {.role = Role::kWorker, .rank = 1, .state = NodeState::kFinished}});
    EXPECT_EQ(workers.worker_0_left(), state == NodeState::kFinished);
  }
}

}  // namespace
}  // namespace sluice::server
