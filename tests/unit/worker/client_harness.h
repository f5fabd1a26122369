// A worker's client whose scheduler and two shards are played by the test.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

#include "unit/operations.h"
#include "unit/recording_network.h"
#include "worker/client.h"

namespace sluice::testing {

using worker::Client;

// Records how often a completion was called, and its last status.
struct Outcome {
  int calls = 0;
  Status status;

  worker::Done Record() {
    return [this](const Status& with) {
      ++calls;
      status = with;
    };
  }
  bool Succeeded() const { return calls == 1 && status.ok(); }
  std::string Error() const { return calls == 1 && !status.ok() ? status.failure().message : "no error"; }
};

class ClientHarness : public ::testing::Test {
 protected:
  static constexpr uint64_t kWindow = 4096;
  static constexpr Duration kResend = 2s;

  explicit ClientHarness(uint32_t rank = 0) : rank_(rank) {
    client.OnStart(now, network);
    FromScheduler(wire::Welcome{
        wire::Welcome::State::kComplete,
        rank,
        "",
        {{.role = wire::Role::kServer, .incarnation = 1, .shard_addresses = {"tcp://s:1", "tcp://s:2"}},
         {.role = wire::Role::kWorker, .rank = 0, .incarnation = 2},
         {.role = wire::Role::kWorker, .rank = 1, .incarnation = 3}}});
    for (const uint32_t shard : {0, 1}) EXPECT_EQ(GreetingsTo(ShardPeer(shard)), 1) << shard;
    network.Take();
  }

  // Returns the number of heartbeats sent to a shard: the client sends one first on each new connection.
  int64_t GreetingsTo(transport::PeerId shard) {
    return std::count_if(network.sent.begin(), network.sent.end(),
                         [shard](const Sent& one) { return one.to == shard && one.Is<wire::Heartbeat>(); });
  }
  static transport::PeerId Scheduler() { return {1}; }
  static transport::PeerId ShardPeer(uint32_t shard) { return {2 + shard}; }

  static uint32_t ShardOf(const Sent& request) { return static_cast<uint32_t>(request.to.value - 2); }

  void FromScheduler(wire::Body body, uint64_t in_reply_to = 0) {
    Deliver(Scheduler(), wire::Role::kScheduler, std::move(body), in_reply_to, {});
  }
  void FromShard(uint32_t shard, uint64_t in_reply_to, wire::Body body, wire::Frames payload = {}) {
    Deliver(ShardPeer(shard), wire::Role::kServer, std::move(body), in_reply_to, std::move(payload));
  }
  void Ack(const Sent& request) { FromShard(ShardOf(request), request.message.id, wire::Ack{}); }
  // Answers with the value of one part, in which all elements are equal.
  void Answer(const Sent& request, wire::PartRef ref, uint64_t version, float value, size_t elements,
              uint32_t slot = 0) {
    FromShard(ShardOf(request), request.message.id, wire::Values{true, {{ref, slot, version}}},
              {FrameOf(std::vector<float>(elements, value))});
  }
  void AnswerVersion(const Sent& request, wire::PartRef ref, uint64_t version, uint32_t slot = 0) {
    FromShard(ShardOf(request), request.message.id, wire::Values{false, {{ref, slot, version}}});
  }

  // Returns the messages sent to the shards since the last call.
  std::vector<Sent> ToShards() {
    auto sent = network.Take();
    std::erase_if(sent, [](const Sent& one) { return one.to == Scheduler(); });
    return sent;
  }
  // Returns the one message to the scheduler that is not a heartbeat; expects that there is exactly one.
  Sent ToScheduler() {
    auto sent = network.Take();
    std::erase_if(sent, [](const Sent& one) { return one.to != Scheduler() || one.Is<wire::Heartbeat>(); });
    EXPECT_EQ(sent.size(), 1u);
    return sent.empty() ? Sent{} : sent.front();
  }
  // Advances the time from timer to timer, while the scheduler answers heartbeats.
  void RunFor(Duration duration) {
    const Time end = now + duration;
    while (client.NextTimer() <= end) {
      now = std::max(now, client.NextTimer());
      client.OnTimer(now, network);
      FromScheduler(wire::HeartbeatAck{});
    }
    now = end;
  }

  // Returns a float32 key. shards[i] is the shard of part i; each part has `part` elements.
  static wire::KeyEntry EntryOf(uint32_t id, const std::vector<uint32_t>& shards, int64_t part) {
    wire::KeyEntry entry;
    entry.id = id;
    entry.spec = {std::string("key") + std::to_string(id), DType::kFloat32,
                  Shape{part * static_cast<int64_t>(shards.size())}};
    for (const uint32_t shard : shards)
      entry.slices.push_back({shard, part * static_cast<int64_t>(entry.slices.size()), part});
    entry.part_elements = part;
    return entry;
  }
  // Declares and initialises a key; the shards report `version` for all its parts.
  void AddKey(const wire::KeyEntry& entry, uint64_t version = 0) {
    std::optional<Result<std::vector<uint32_t>>> ids;
    const std::vector<float> zeros(static_cast<size_t>(entry.spec.shape.size()));
    client.Init(
        now, entry.mode, {{entry.spec, FrameOf(zeros)}}, Time::max(),
        [&](const auto& result) { ids = result; }, network);
    FromScheduler(wire::KeyTable{{entry}}, ToScheduler().message.id);
    // The client asks for versions only after the shards have acknowledged the store, so answers bring
    // further requests.
    for (auto requests = ToShards(); !requests.empty(); requests = ToShards()) {
      for (const Sent& request : requests) {
        if (request.Is<wire::Store>()) Ack(request);
        if (!request.Is<wire::Pull>()) continue;
        for (const wire::PullPart& part : request.As<wire::Pull>().parts)
          AnswerVersion(request, part.ref, version);
      }
    }
    ASSERT_TRUE(ids && ids->ok());
    EXPECT_EQ(ids->value(), std::vector<uint32_t>{entry.id});
  }

  static Frame FrameOf(const std::vector<float>& values) {
    return Frame::Copy(std::as_bytes(std::span(values)));
  }
  void Push(uint32_t key, const Frame& source, Outcome* outcome, int priority = 0) {
    auto op = PushOf(key, source, outcome->Record());
    op->priority = priority;
    client.Submit(now, std::move(op), network);
  }
  void PushPull(uint32_t key, const Frame& source, std::vector<float>* into, Outcome* outcome,
                Time deadline = Time::max()) {
    client.Submit(now, PushPullOf(key, source, Into(into), outcome->Record(), deadline), network);
  }
  void Pull(uint32_t key, std::vector<float>* into, Outcome* outcome, Time deadline = Time::max(),
            bool latest = false) {
    auto op = PullOf(key, Into(into), outcome->Record(), deadline);
    op->latest = latest;
    client.Submit(now, std::move(op), network);
  }
  static worker::Destination Into(std::vector<float>* values) {
    return {std::as_writable_bytes(std::span(*values)), nullptr};
  }

  const uint32_t rank_;
  RecordingNetwork network;
  Time now{};
  Client client{{.membership = {.role = wire::Role::kWorker,
                                .incarnation = 2,
                                .scheduler_address = "tcp://scheduler:1",
                                .num_workers = 2,
                                .num_servers = 1},
                 .resend_timeout = kResend,
                 .max_inflight_bytes = kWindow}};

 private:
  void Deliver(transport::PeerId from, wire::Role role, wire::Body body, uint64_t in_reply_to,
               wire::Frames payload) {
    wire::Message message;
    message.sender = {role, 0, role == wire::Role::kServer ? 1u : 99u};
    message.in_reply_to = in_reply_to;
    message.epoch = 1;
    message.body = std::move(body);
    message.payload = std::move(payload);
    client.OnMessage(now, from, std::move(message), network);
  }
};

}  // namespace sluice::testing
