// A machine whose methods are functions that a test sets, and a way to wait for its calls on any
// kind of loop.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/guarded.h"
#include "transport/transport.h"

namespace sluice::transport::testing {

// Lets a test wait for a condition that a machine's calls change. Thread-safe.
class Probe {
 public:
  void Touch() {
    calls_.Notify([](uint64_t& n) { ++n; });
  }
  // Waits until `done` returns true; evaluates it after every Touch. Returns false on timeout. `done` must
  // not use the probe.
  bool Await(Duration timeout, const std::function<bool()>& done) {
    return calls_.Await(
        timeout, [&](uint64_t) { return done(); }, [](uint64_t, bool ready) { return ready; });
  }

 private:
  Guarded<uint64_t> calls_{0};
};

class ScriptMachine final : public StateMachine {
 public:
  std::function<void(Time, Network&)> on_start;
  std::function<void(Time, PeerId, wire::Message&, Network&)> on_message;
  std::function<void(Time, Network&)> on_burst_end, on_timer;
  std::function<void(PeerId)> on_refused, on_closed, on_room;
  std::function<void(const std::string& why)> on_end;
  std::function<void()> after_call;  // called after each of the above but on_burst_end
  Time timer = Time::max();
  Duration linger = Duration::max();
  std::atomic<bool> done = false;

  void OnStart(Time now, Network& network) override {
    if (on_start) on_start(now, network);
    After();
  }
  void OnMessage(Time now, PeerId from, wire::Message message, Network& network) override {
    if (on_message) on_message(now, from, message, network);
    After();
  }
  void OnBurstEnd(Time now, Network& network) override {
    if (on_burst_end) on_burst_end(now, network);
  }
  void OnRefused(Time, PeerId peer, Network&) override {
    if (on_refused) on_refused(peer);
    After();
  }
  void OnClosed(Time, PeerId peer, Network&) override {
    if (on_closed) on_closed(peer);
    After();
  }
  void OnRoom(Time, PeerId peer, Network&) override {
    if (on_room) on_room(peer);
    After();
  }
  void OnEnd(Time, const std::string& why, Network&) override {
    if (on_end) on_end(why);
    After();
  }
  void OnTimer(Time now, Network& network) override {
    if (now < timer) return;
    timer = Time::max();
    if (on_timer) on_timer(now, network);
    After();
  }
  Time NextTimer() const override { return timer; }
  bool Done() const override { return done; }
  Duration Linger() const override { return linger; }
  std::string DumpState(Time) const override { return "a script"; }

 private:
  void After() {
    if (after_call) after_call();
  }
};

inline constexpr uint64_t kJob = 42;

inline wire::Message MakeMessage(uint64_t id, wire::Body body = wire::Heartbeat{}) {
  wire::Message message;
  message.job = kJob;
  message.id = id;
  message.body = std::move(body);
  return message;
}

// Returns a push with one part for each frame.
inline wire::Message MakePush(uint64_t id, wire::Frames frames) {
  wire::Push push;
  for (size_t i = 0; i < frames.size(); ++i) push.parts.push_back({.round = id});
  wire::Message message = MakeMessage(id, std::move(push));
  message.payload = std::move(frames);
  return message;
}
inline wire::Message MakePush(uint64_t id, Frame frame) {
  return MakePush(id, wire::Frames{std::move(frame)});
}

// Returns a machine that answers a Push with Values of the same frames, and anything else with an Ack.
inline std::shared_ptr<ScriptMachine> MakeEcho() {
  auto machine = std::make_shared<ScriptMachine>();
  machine->on_message = [](Time, PeerId from, wire::Message& message, Network& network) {
    wire::Message reply = MakeMessage(message.id, wire::Ack{});
    reply.in_reply_to = message.id;
    if (const auto* push = std::get_if<wire::Push>(&message.body)) {
      wire::Values values;
      for (const wire::PushPart& part : push->parts) values.parts.push_back({part.ref, 0, part.round});
      reply.body = std::move(values);
      reply.payload = std::move(message.payload);
    }
    network.Send(from, std::move(reply));
  };
  return machine;
}

}  // namespace sluice::transport::testing
