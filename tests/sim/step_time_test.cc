// Measures how long a training step takes on 1 Gbit/s, with real clients and shards in virtual time. The
// workers spend the time that LeNet takes on one core. The machines themselves take no time, and a link
// passes whole messages one after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "sim/rounds.h"

namespace sluice::testing {
namespace {

// LeNet's keys, in the order of the layers. `forward` is the time in a step at which forward needs the key,
// `before_end` how long before the end of backward its gradient is written, both in ms
// (docs/benchmarks/training.md, "Overlap of a step").
struct Layer {
  int64_t elements;
  double forward, before_end;
};
constexpr Layer kLayers[] = {{500, 0, 0.07},       {20, 0, 0},       {25'000, 1.3, 4.85}, {50, 1.3, 4.85},
                             {400'000, 4.2, 10.3}, {500, 4.2, 10.3}, {5'000, 4.8, 11.2},  {10, 4.8, 11.2}};
constexpr size_t kStepKeys = std::size(kLayers);
constexpr double kComputing = 16;  // ms of a step without waiting

constexpr int kSteps = 60, kWarmUp = 5;

struct StepOptions {
  bool overlap = true;
  GradientCompression compression = {};
  double jitter = 0;  // a step computes up to this fraction longer, drawn for each step and worker
};

Duration Ms(double ms) {
  return Duration(static_cast<int64_t>(ms * 1e6));
}

SimClusterOptions TwoByTwo() {
  constexpr double kRate = 125e6 * 1448 / 1538;  // payload bytes per second of 1 Gbit/s Ethernet
  SimClusterOptions options;
  options.workers = options.servers = 2;
  options.link = {.transmit_rate = kRate, .receive_rate = kRate};
  options.faults = {.min_delay = 50us, .max_delay = 50us};
  options.codec = 0;
  options.resend_timeout = options.heartbeat_timeout = 600s;
  return options;
}

class Training {
 public:
  explicit Training(const StepOptions& options)
      : options_(options), cluster_(TwoByTwo()), workers_(cluster_.options().workers) {}

  // Returns the time of a step in ms.
  double Run() {
    EXPECT_TRUE(cluster_.Join());
    for (uint32_t w = 0; w < workers_.size(); ++w) Init(w);
    EXPECT_TRUE(network().RunUntil([&] { return initialised_ == workers_.size(); }, network().now() + 60s));
    for (uint32_t w = 0; w < workers_.size(); ++w) BeginStep(w);
    while (finished_ < workers_.size()) RunNext();
    return ToSeconds(last_ - first_) * 1e3 / (kSteps - kWarmUp);
  }

 private:
  struct Worker {
    std::vector<uint32_t> keys;
    std::vector<std::shared_ptr<Buffer>> values;
    std::array<bool, kStepKeys> there;
    int step = 0;
    double slow = 1;
    size_t layer = 0;     // the next layer of forward
    double computed = 0;  // ms of the step that have been computed
    bool waits = false;
  };

  transport::SimNetwork& network() { return cluster_.network(); }

  // Calls `what` after `duration`, which stands for computing; the network goes on meanwhile.
  void After(Duration duration, std::function<void()> what) {
    computing_.emplace(network().now() + duration, std::move(what));
  }
  void RunNext() {
    const Time next = computing_.empty() ? network().now() + 60s : computing_.begin()->first;
    const auto sooner = [&] { return !computing_.empty() && computing_.begin()->first < next; };
    if (network().RunUntil(sooner, next)) return;
    ASSERT_FALSE(computing_.empty()) << network().LogText();
    const auto what = std::move(computing_.begin()->second);
    computing_.erase(computing_.begin());
    what();
  }

  void Init(uint32_t w) {
    cluster_.OnWorker(w, [this, w](worker::Client& client, Time now, transport::Network& net) {
      std::vector<worker::InitArgs> keys;
      for (size_t k = 0; k < kStepKeys; ++k) {
        auto& value = workers_[w].values.emplace_back(
            std::make_shared<Buffer>(static_cast<size_t>(kLayers[k].elements) * sizeof(float)));
        std::memset(value->data(), 0, value->size());
        keys.push_back(
            {{static_cast<int64_t>(k), DType::kFloat32, Shape({kLayers[k].elements})}, Frame::Of(value)});
      }
      const auto on_ids = [this, w](const Result<std::vector<uint32_t>>& ids) {
        workers_[w].keys = ids.value();
        workers_[w].there.fill(true);
        ++initialised_;
      };
      client.Init(now, wire::SyncMode::kSync, std::move(keys), Time::max(), on_ids, net);
    });
  }

  void BeginStep(uint32_t w) {
    Worker& worker = workers_[w];
    if (w == 0 && worker.step == kWarmUp) first_ = network().now();
    if (w == 0 && worker.step == kSteps) last_ = network().now();
    if (worker.step++ == kSteps) {
      ++finished_;
      return;
    }
    worker.layer = 0;
    worker.computed = 0;
    worker.slow = 1 + options_.jitter * rng_.Uniform();
    Forward(w);
  }

  bool MayCompute(const Worker& worker) const {
    return options_.overlap ? worker.there[worker.layer]
                            : std::all_of(worker.there.begin(), worker.there.end(), [](bool b) { return b; });
  }

  void Forward(uint32_t w) {
    Worker& worker = workers_[w];
    for (; worker.layer < kStepKeys; ++worker.layer) {
      if (const double at = kLayers[worker.layer].forward; at > worker.computed) {
        const double more = at - std::exchange(worker.computed, at);
        return After(Ms(more * worker.slow), [this, w] { Forward(w); });
      }
      worker.waits = !MayCompute(worker);
      if (worker.waits) return;
    }
    Backward(w);
  }

  void Backward(uint32_t w) {
    Worker& worker = workers_[w];
    const double left = kComputing - worker.computed;
    worker.there.fill(false);
    for (size_t k = kStepKeys; k-- > 0;) {
      const double written = left - (options_.overlap ? kLayers[k].before_end : 0);
      After(Ms(written * worker.slow), [this, w, k] { Push(w, k); });
    }
    After(Ms(left * worker.slow), [this, w] { BeginStep(w); });
  }

  void Push(uint32_t w, size_t k) {
    cluster_.OnWorker(w, [this, w, k](worker::Client& client, Time now, transport::Network& net) {
      const Worker& worker = workers_[w];
      const auto& value = worker.values[k];
      const auto on_landed = [this, w, k](const Status& status) {
        EXPECT_TRUE(status.ok());
        workers_[w].there[k] = true;
        if (std::exchange(workers_[w].waits, false)) After(0ms, [this, w] { Forward(w); });
      };
      auto op = PushPullOf(
          worker.keys[k],
          EncodedAs(options_.compression, Frame::Copy(value->bytes()), client.keys().entry(worker.keys[k])),
          {value->bytes(), value}, on_landed);
      op->compression = options_.compression;
      op->priority = options_.overlap ? -static_cast<int>(k) : 0;
      client.Submit(now, std::move(op), net);
    });
  }

  const StepOptions options_;
  SimCluster cluster_;
  Rng rng_{7};
  std::vector<Worker> workers_;
  std::multimap<Time, std::function<void()>> computing_;
  size_t initialised_ = 0, finished_ = 0;
  Time first_{}, last_{};
};

double StepMs(const char* name, const StepOptions& options) {
  const double ms = Training(options).Run();
  ::testing::Test::RecordProperty(StrCat(name, "_jitter_", static_cast<int>(100 * options.jitter)),
                                  StrCat(ms));
  return ms;
}

constexpr GradientCompression kTwoBits = {.type = Compression::k2Bit};

// tools/step_model.py predicts 17.8 ms with overlap and 31.9 ms without, for workers that compute
// equally long; it models the link of one worker.
TEST(SimStepTime, OverlapHidesMoreThanAThird) {
  for (const double jitter : {0.0, 0.1, 0.2, 0.4}) {
    const double with = StepMs("with", {.jitter = jitter});
    const double without = StepMs("without", {.overlap = false, .jitter = jitter});
    EXPECT_LE(with / without, 0.66) << with << " and " << without << " ms at " << jitter;
  }
}

// The numbers are from tools/step_model.py with pushes of 1/16 of the bytes. On average the slower of two
// workers computes 1 + 2/3 of the jitter.
TEST(SimStepTime, OfTwoBitsItIsWhatTheModelSays) {
  for (const auto& [jitter, model] : std::vector<std::pair<double, double>>{
           {0, 20.35}, {0.05, 20.54}, {0.1, 20.73}, {0.2, 21.11}, {0.4, 21.87}}) {
    EXPECT_NEAR(StepMs("2bit", {.compression = kTwoBits, .jitter = jitter}) / model, 1, 0.1) << jitter;
  }
}

}  // namespace
}  // namespace sluice::testing
