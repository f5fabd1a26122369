// A shard with its surroundings: keys, messages of workers, and a network that records the shard's answers.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "server/shard.h"
#include "unit/recording_network.h"

namespace sluice::testing {

// Returns `values` as a network may deliver them: `shift` bytes behind an aligned address.
template <typename T>
Frame FrameOf(std::span<const T> values, size_t shift = 0) {
  const auto buffer = std::make_shared<Buffer>(values.size_bytes() + shift);
  if (!values.empty()) std::memcpy(buffer->data() + shift, values.data(), values.size_bytes());
  return Frame::Of(buffer).Slice(shift, values.size_bytes());
}
template <typename T>
Frame FrameOf(const std::vector<T>& values, size_t shift = 0) {
  return FrameOf(std::span(values), shift);
}
template <typename T>
std::vector<T> ValuesOf(const Frame& frame) {
  std::vector<T> values(frame.size() / sizeof(T));
  std::memcpy(values.data(), frame.data(), frame.size());
  return values;
}

struct PushOptions {
  uint64_t samples = 1;
  double divisor = 1;
  bool want_value = false;
  size_t shift = 0;
};

class ShardHarness {
 public:
  explicit ShardHarness(uint32_t workers, server::ShardOptions options = {}) : shard(options) {
    for (uint32_t w = 0; w < workers; ++w)
      roster.push_back({.role = wire::Role::kWorker, .rank = w, .incarnation = 1000 + w});
    SetMembership(1);
  }
  void SetMembership(uint64_t epoch) { shard.SetMembership(0, epoch, roster, network); }

  static transport::PeerId PeerOf(uint32_t worker) { return {100 + worker}; }

  // Returns a key of which all parts are on this shard.
  static wire::KeyEntry EntryOf(uint32_t id, DType dtype, int64_t elements, wire::SyncMode mode,
                                int64_t part_elements) {
    wire::KeyEntry entry;
    entry.id = id;
    entry.spec = {int64_t{id}, dtype, Shape{elements}};
    entry.mode = mode;
    entry.slices = {{0, 0, elements}};
    entry.part_elements = part_elements;
    return entry;
  }
  // Adds and initialises a key with the next free id as its name. Returns the id.
  template <typename T>
  uint32_t AddKey(const std::vector<T>& initial, wire::SyncMode mode = wire::SyncMode::kSync,
                  int64_t part_elements = 1 << 20, uint32_t of_store = 0) {
    const auto id = static_cast<uint32_t>(keys_.size());
    keys_.push_back(
        EntryOf(id, DTypeOf<T>::value, static_cast<int64_t>(initial.size()), mode, part_elements));
    keys_.back().spec.store = of_store;
    EXPECT_TRUE(shard.AddKeys({keys_.back()}).ok());
    wire::Store store;
    wire::Frames frames = Cut(id, std::span(initial), 0);
    for (uint32_t part = 0; part < frames.size(); ++part) store.parts.push_back({.ref = {id, part}});
    EXPECT_TRUE(Deliver(0, store, std::move(frames)).at(0).Is<wire::Ack>());
    return id;
  }

  // Delivers a message from a worker. Returns the shard's answers to all peers.
  std::vector<Sent> Deliver(uint32_t worker, wire::Body body, wire::Frames payload = {}) {
    wire::Message message;
    message.sender = {wire::Role::kWorker, worker, 1000 + worker};
    message.id = ++last_id;
    message.body = std::move(body);
    message.payload = std::move(payload);
    return DeliverRaw(PeerOf(worker), std::move(message));
  }
  std::vector<Sent> DeliverRaw(transport::PeerId from, wire::Message message) {
    shard.OnMessage(now, from, std::move(message), network);
    if (!more_wait) shard.OnBurstEnd(now, network);
    return network.Take();
  }
  // Advances the time from timer to timer. Returns what the shard has sent meanwhile.
  std::vector<Sent> RunFor(Duration duration) {
    const Time end = now + duration;
    while (shard.NextTimer() <= end) {
      now = std::max(now, shard.NextTimer());
      shard.OnTimer(now, network);
    }
    now = end;
    return network.Take();
  }

  // Pushes all parts of the key in one message.
  template <typename T>
  std::vector<Sent> Push(uint32_t worker, uint32_t key, uint64_t round, const std::vector<T>& gradient,
                         const PushOptions& options = {}) {
    wire::Push push{.samples = options.samples, .divisor = options.divisor, .parts = {}};
    wire::Frames frames = Cut(key, std::span(gradient), options.shift);
    for (uint32_t part = 0; part < frames.size(); ++part)
      push.parts.push_back({{key, part}, round, options.want_value});
    return Deliver(worker, push, std::move(frames));
  }
  // Pushes one part of the key.
  template <typename T>
  std::vector<Sent> PushPart(uint32_t worker, wire::PartRef ref, uint64_t round,
                             const std::vector<T>& gradient, const PushOptions& options = {}) {
    return Deliver(worker,
                   wire::Push{.samples = options.samples,
                              .divisor = options.divisor,
                              .parts = {{ref, round, options.want_value}}},
                   {FrameOf(gradient, options.shift)});
  }
  std::vector<Sent> Pull(uint32_t worker, uint32_t key, uint64_t min_version, uint32_t slot = 0,
                         wire::Pull::Want want = wire::Pull::Want::kValue) {
    wire::Pull pull{.want = want, .parts = {}};
    for (uint32_t part = 0; part < plan::PartsOf(keys_.at(key)).size(); ++part)
      pull.parts.push_back({{key, part}, slot, min_version});
    return Deliver(worker, pull);
  }

  // Returns the key's current weight (slot 0) or optimiser state, all parts joined.
  template <typename T>
  std::vector<T> Weight(uint32_t key, uint32_t slot = 0) {
    return Join<T>(Pull(0, key, 0, slot));
  }
  // Returns the version of each part.
  std::vector<uint64_t> Versions(uint32_t key, uint32_t worker = 0) {
    std::vector<uint64_t> versions;
    for (const Sent& sent : Pull(worker, key, 0, 0, wire::Pull::Want::kVersion)) {
      for (const wire::ValuePart& part : sent.As<wire::Values>().parts) versions.push_back(part.version);
    }
    return versions;
  }
  // Joins the payloads of the Values messages that answer one request, in the order of the parts.
  template <typename T>
  static std::vector<T> Join(const std::vector<Sent>& answers) {
    std::map<uint32_t, std::vector<T>> parts;
    for (const Sent& sent : answers) {
      const auto& values = sent.As<wire::Values>();
      for (size_t i = 0; i < values.parts.size(); ++i)
        parts[values.parts[i].ref.part] = ValuesOf<T>(sent.message.payload[i]);
    }
    std::vector<T> joined;
    for (const auto& [part, values] : parts) joined.insert(joined.end(), values.begin(), values.end());
    return joined;
  }
  uint64_t Counter(const std::string& name) const {
    const wire::Counters counters = shard.counters();
    const auto it = counters.find(name);
    return it == counters.end() ? 0 : it->second;
  }

  std::vector<wire::NodeInfo> roster;
  RecordingNetwork network;
  server::Shard shard;
  bool more_wait = false;  // true: more messages are waiting, so OnBurstEnd is not called
  uint64_t last_id = 0;
  Time now{};

 private:
  template <typename T>
  wire::Frames Cut(uint32_t key, std::span<const T> values, size_t shift) const {
    wire::Frames frames;
    for (const plan::Part& part : plan::PartsOf(keys_.at(key)))
      frames.push_back(
          FrameOf(values.subspan(static_cast<size_t>(part.offset), static_cast<size_t>(part.length)), shift));
    return frames;
  }

  std::vector<wire::KeyEntry> keys_;
};

inline OptimizerConfig Accumulate(double factor = 1) {
  OptimizerConfig config;
  config.kind = OptimizerKind::kAccumulate;
  config.rescale_grad = factor;
  return config;
}

// Returns the message of the error if it is the only answer, else an empty text.
inline std::string ErrorOf(const std::vector<Sent>& answers) {
  if (answers.size() != 1 || !answers[0].Is<wire::ErrorReply>()) return {};
  return answers[0].As<wire::ErrorReply>().message;
}
inline bool OnlyAck(const std::vector<Sent>& answers) {
  return answers.size() == 1 && answers[0].Is<wire::Ack>();
}

}  // namespace sluice::testing
