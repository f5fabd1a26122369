// A scheduler whose two servers and two workers are played by the test.
#pragma once

#include <gtest/gtest.h>

#include "base/strings.h"
#include "scheduler/scheduler.h"
#include "unit/recording_network.h"

namespace sluice::scheduler {

using sluice::testing::RecordingNetwork;
using sluice::testing::Sent;
using wire::NodeState;
using wire::Role;

struct Node {
  Role role;
  uint32_t rank;
  transport::PeerId peer() const { return {(role == Role::kServer ? 100u : 200u) + rank}; }
  uint64_t incarnation() const { return peer().value * 10; }
};
// The process that a supervisor starts after worker 1's process has died.
struct Successor {
  transport::PeerId peer{301};
  uint64_t incarnation = 3010;
};
inline constexpr Node kServer0{Role::kServer, 0}, kServer1{Role::kServer, 1};
inline constexpr Node kWorker0{Role::kWorker, 0}, kWorker1{Role::kWorker, 1};
inline constexpr Node kAll[] = {kServer0, kServer1, kWorker0, kWorker1};

class SchedulerTest : public ::testing::Test {
 protected:
  SchedulerTest() { scheduler_.OnStart(now_, network_); }

  // Delivers a message from a node. Returns what the scheduler sends in reaction.
  std::vector<Sent> Deliver(const Node& from, wire::Body body, uint64_t id = 0, uint64_t in_reply_to = 0) {
    wire::Message message;
    message.sender = {from.role, from.rank, from.incarnation()};
    message.id = id;
    message.in_reply_to = in_reply_to;
    message.body = std::move(body);
    scheduler_.OnMessage(now_, from.peer(), std::move(message), network_);
    return network_.Take();
  }
  std::vector<Sent> Register(const Node& node) {
    wire::Register request{.role = node.role,
                           .identity = node.role == Role::kWorker ? "w" + std::to_string(node.rank) : "",
                           .requested_rank = static_cast<int32_t>(node.rank),
                           .host = "h",
                           .num_workers = 2,
                           .num_servers = 2};
    if (node.role == Role::kServer) request.shard_addresses = {"tcp://h:1"};
    return Deliver(node, request);
  }
  // Registers another process with worker 1's identity. `answers` is the id of the challenge that the message
  // answers, or 0.
  std::vector<Sent> RegisterAgain(const Successor& successor, uint64_t answers = 0) {
    wire::Message message;
    message.sender = {Role::kWorker, 0, successor.incarnation};
    message.in_reply_to = answers;
    message.body = wire::Register{
        .role = Role::kWorker, .identity = "w1", .host = "new", .pid = 8, .num_workers = 2, .num_servers = 2};
    scheduler_.OnMessage(now_, successor.peer, std::move(message), network_);
    return network_.Take();
  }
  void JoinAll() {
    for (const Node& node : kAll) Register(node);
  }
  void RunUntil(Duration end) {
    while (!scheduler_.Done() && scheduler_.NextTimer() <= Time{} + end) {
      now_ = std::max(now_, scheduler_.NextTimer());
      scheduler_.OnTimer(now_, network_);
    }
    now_ = std::max(now_, Time{} + end);
  }
  static std::vector<transport::PeerId> PeersOf(const std::vector<Sent>& sent) {
    std::vector<transport::PeerId> peers;
    for (const Sent& one : sent) peers.push_back(one.to);
    return peers;
  }
  static wire::DeclareKeys Declaration(DType dtype = DType::kFloat32) {
    return {.keys = {{std::string("w"), dtype, Shape{8}}}};
  }
  // Both servers acknowledge message `id`. Returns what the scheduler sends after the second one.
  std::vector<Sent> AckBoth(uint64_t id) {
    std::vector<Sent> sent = Deliver(kServer0, wire::Ack{}, 0, id);
    EXPECT_TRUE(sent.empty());
    return Deliver(kServer1, wire::Ack{}, 0, id);
  }

  RecordingNetwork network_;
  Time now_{};
  std::vector<size_t> completions_;  // by call of on_complete: number of messages sent and not yet taken
  std::vector<std::string> joined_;
  int waitings_ = 0;
  Scheduler scheduler_{{.job = 3,
                        .incarnation = 9,
                        .num_workers = 2,
                        .num_servers = 2,
                        .rendezvous_timeout = 30s,
                        .on_joined =
                            [this](const wire::NodeInfo& node) {
                              joined_.push_back(StrCat(wire::Name(node.role), " ", node.rank));
                            },
                        .on_complete = [this] { completions_.push_back(network_.Take().size()); },
                        .on_waiting = [this] { return ++waitings_ > 0; }}};
};

}  // namespace sluice::scheduler
