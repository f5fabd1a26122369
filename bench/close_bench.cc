// Rounds closing on a server's shards, beside the same sums as one plain loop over the same memory: how much
// of what the memory gives is left between a push that arrives and a weight that can be sent. No network: the
// shards' machines are called as their loops call them, one thread for each.
#include <gflags/gflags.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "base/simd.h"
#include "base/strings.h"
#include "runtime/flags.h"
#include "server/shard.h"
#include "sluice/error.h"

DEFINE_int32(workers, 2, "whose gradients a round sums: 1, 2, 4 or 7");
DEFINE_int32(threads, 1, "key-owning threads");
DEFINE_int64(mib, 256, "of weights, in all");
DEFINE_string(optimizer, "accumulate", "accumulate, or sgd (momentum 0.9)");
DEFINE_int32(repeats, 9,
             "pairs of passes over all weights, the shards' and the plain loop's; medians are reported");
DEFINE_string(json, "", "write the result object to this file");

namespace sluice {
namespace {

constexpr int64_t kPart = 1 << 18;  // float32 elements: 1 MiB
constexpr float kRate = 0.01f, kMomentum = 0.9f;

using Gradients = std::vector<std::shared_ptr<Buffer>>;  // by worker

// In rank order, as a shard sums.
template <int kWorkers>
SLUICE_SIMD void PlainAccumulate(const float* const* g, float* w, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    float sum = g[0][i];
    for (int r = 1; r < kWorkers; ++r) sum += g[r][i];
    w[i] += sum;
  }
}
template <int kWorkers>
SLUICE_SIMD void PlainSgd(const float* const* g, float* w, float* v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    float sum = g[0][i];
    for (int r = 1; r < kWorkers; ++r) sum += g[r][i];
    v[i] = kMomentum * v[i] - kRate * sum;
    w[i] += v[i];
  }
}

std::shared_ptr<Buffer> Filled(int64_t elements, float value) {
  auto buffer = std::make_shared<Buffer>(static_cast<size_t>(elements) * sizeof(float));
  std::fill_n(buffer->as<float>(), elements, value);
  return buffer;
}

class NoNetwork final : public transport::Network {
 public:
  transport::PeerId Connect(const std::string&) override { return {}; }
  void Disconnect(transport::PeerId) override {}
  void Send(transport::PeerId, wire::Message message) override {
    if (const auto* error = std::get_if<wire::ErrorReply>(&message.body))
      throw Error(ErrorCode::kInvalidArgument, StrCat("a shard refused: ", error->message));
  }
  uint64_t QueuedBytes(transport::PeerId) const override { return 0; }
};

// One thread's share: its weights as a shard keeps them, and again for the plain loop.
class Share {
 public:
  explicit Share(int64_t parts) : parts_(parts), shard_({}), plain_weight_(Filled(parts * kPart, 0)) {
    for (int w = 0; w < FLAGS_workers; ++w) gradients_.push_back(Filled(parts * kPart, 0.5f));
    if (FLAGS_optimizer == "sgd") plain_momentum_ = Filled(parts * kPart, 0);
    Prepare();
  }

  // Every part is pushed by every worker; the last push closes its round.
  void Shards() {
    ++round_;
    for (uint32_t part = 0; part < parts_; ++part) {
      for (uint32_t w = 0; w < gradients_.size(); ++w) {
        wire::Message message = From(w, wire::Push{.parts = {{{0, part}, round_}}});
        message.payload.push_back(
            Frame::Of(gradients_[w]).Slice(part * kPart * sizeof(float), kPart * sizeof(float)));
        shard_.OnMessage(Time{}, {w + 1}, std::move(message), network_);
      }
    }
  }
  void PlainLoop() {
    switch (FLAGS_workers) {
      case 1:
        return Plain<1>();
      case 2:
        return Plain<2>();
      case 4:
        return Plain<4>();
      default:
        return Plain<7>();
    }
  }

 private:
  void Prepare() {
    std::vector<wire::NodeInfo> roster;
    for (uint32_t w = 0; w < gradients_.size(); ++w)
      roster.push_back({.role = wire::Role::kWorker, .rank = w, .incarnation = w});
    shard_.SetMembership(0, 1, roster, network_);
    wire::KeyEntry entry;
    entry.spec = {int64_t{0}, DType::kFloat32, Shape{parts_ * kPart}};
    entry.slices = {{0, 0, parts_ * kPart}};
    entry.part_elements = kPart;
    shard_.AddKeys({entry}).OrThrow();
    for (uint32_t part = 0; part < parts_; ++part) {
      wire::Message message = From(0, wire::Store{.parts = {{.ref = {0, part}}}});
      message.payload.push_back(
          Frame::Of(plain_weight_).Slice(part * kPart * sizeof(float), kPart * sizeof(float)));
      shard_.OnMessage(Time{}, {1}, std::move(message), network_);
    }
    const bool sgd = FLAGS_optimizer == "sgd";
    OptimizerConfig config{.kind = sgd ? OptimizerKind::kSgd : OptimizerKind::kAccumulate};
    config.learning_rate = kRate;
    config.momentum = sgd ? kMomentum : 0;
    shard_.SetOptimizer(config, {}).OrThrow();
  }
  wire::Message From(uint32_t worker, wire::Body body) {
    wire::Message message;
    message.sender = {wire::Role::kWorker, worker, worker};
    message.id = ++id_;
    message.body = std::move(body);
    return message;
  }
  template <int kWorkers>
  void Plain() {
    const float* sources[kWorkers];
    for (int r = 0; r < kWorkers; ++r) sources[r] = gradients_[static_cast<size_t>(r)]->as<float>();
    float* weight = plain_weight_->as<float>();
    if (plain_momentum_)
      return PlainSgd<kWorkers>(sources, weight, plain_momentum_->as<float>(), parts_ * kPart);
    PlainAccumulate<kWorkers>(sources, weight, parts_ * kPart);
  }

  const int64_t parts_;
  NoNetwork network_;
  server::Shard shard_;
  uint64_t round_ = 0, id_ = 0;
  Gradients gradients_;
  std::shared_ptr<Buffer> plain_weight_, plain_momentum_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// What all threads need together.
double Seconds(std::vector<std::unique_ptr<Share>>& shares, void (Share::*work)()) {
  std::barrier start(static_cast<std::ptrdiff_t>(shares.size()) + 1);
  std::vector<std::thread> threads;
  for (const auto& share : shares) {
    threads.emplace_back([&start, work, share = share.get()] {
      start.arrive_and_wait();
      (share->*work)();
    });
  }
  const auto begin = std::chrono::steady_clock::now();
  start.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

nlohmann::json Measure() {
  std::vector<std::unique_ptr<Share>> shares;
  const int64_t parts = std::max<int64_t>(1, FLAGS_mib / FLAGS_threads);
  for (int i = 0; i < FLAGS_threads; ++i) shares.push_back(std::make_unique<Share>(parts));
  const int streams = FLAGS_workers + (FLAGS_optimizer == "sgd" ? 4 : 2);  // read, or written
  const double gigabytes = static_cast<double>(parts * FLAGS_threads * kPart) * sizeof(float) * streams / 1e9;
  std::vector<double> of_plain, of_shards, ratios;
  for (int repeat = -1; repeat < FLAGS_repeats; ++repeat) {
    const double plain = Seconds(shares, &Share::PlainLoop), closing = Seconds(shares, &Share::Shards);
    if (repeat < 0) continue;  // warms up
    of_plain.push_back(gigabytes / plain);
    of_shards.push_back(gigabytes / closing);
    ratios.push_back(plain / closing);
  }
  return {{"workers", FLAGS_workers},
          {"threads", FLAGS_threads},
          {"mib", parts * FLAGS_threads},
          {"optimizer", FLAGS_optimizer},
          {"shards_gb_per_sec", Median(of_shards)},
          {"plain_gb_per_sec", Median(of_plain)},
          {"ratio", Median(ratios)}};
}

void Require(bool sound, const char* flag, const std::string& value, const char* accepted) {
  if (!sound)
    throw Error(ErrorCode::kInvalidArgument, StrCat("--", flag, " is ", value, "; it must be ", accepted));
}

void CheckFlags() {
  constexpr int kWorkers[] = {1, 2, 4, 7};
  Require(std::ranges::count(kWorkers, FLAGS_workers) == 1, "workers", StrCat(FLAGS_workers), "1, 2, 4 or 7");
  Require(FLAGS_threads >= 1 && FLAGS_threads <= 256, "threads", StrCat(FLAGS_threads), "1 to 256");
  Require(FLAGS_mib >= FLAGS_threads, "mib", StrCat(FLAGS_mib), "at least one for each thread");
  Require(FLAGS_repeats >= 1, "repeats", StrCat(FLAGS_repeats), "at least 1");
  Require(FLAGS_optimizer == "accumulate" || FLAGS_optimizer == "sgd", "optimizer", FLAGS_optimizer,
          "accumulate or sgd");
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  try {
    sluice::runtime::ParseFlags(argc, argv,
                                "close_bench: rounds closing on a server's shards, beside a plain loop");
    sluice::CheckFlags();
    const std::string result = sluice::Measure().dump() + "\n";
    std::cout << result;
    if (!FLAGS_json.empty()) sluice::WriteFileAtomically(FLAGS_json, {sluice::AsBytes(result)}).OrThrow();
    return 0;
  } catch (const sluice::Error& error) {
    std::cerr << "close_bench: " << error.what() << "\n";
    return 2;
  }
}
