// Images per second of training steps on one device: forward, backward and SGD update on random data; no
// store, no loader. tools/bench_pytorch.py measures the same in PyTorch.
#include <gflags/gflags.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/rng.h"
#include "base/strings.h"
#include "runtime/flags.h"
#include "sluice/autograd.h"
#include "sluice/error.h"
#include "sluice/loss.h"
#include "sluice/models.h"
#include "sluice/optimizer.h"
#include "tensor/access.h"
#include "tensor/devices.h"

DEFINE_string(network, "lenet", "mlp, lenet, lenet_avg or gluon_lenet");
DEFINE_int32(batch_size, 64, "images per step");
DEFINE_int32(threads, 1, "threads of the device");
DEFINE_int32(steps, 30, "steps per repeat");
DEFINE_int32(repeats, 5, "the median of these is reported");
DEFINE_string(json, "", "write the result object to this file");

namespace sluice {
namespace {

// SGD with momentum over all parameters, on their own stream.
class Sgd {
 public:
  explicit Sgd(nn::ParameterDict parameters)
      : parameters_(std::move(parameters)),
        optimizer_(Optimizer::Create({.learning_rate = 0.05, .momentum = 0.9, .wd = 1e-4})) {
    for (const auto& parameter : parameters_) momenta_.emplace_back(parameter->shape());
  }

  void Step(double grad_scale) {
    ++num_update_;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      nn::Parameter& parameter = *parameters_.at(i);
      const Optimizer::Step step{.num_update = num_update_,
                                 .lr_mult = parameter.lr_mult(),
                                 .wd_mult = parameter.wd_mult(),
                                 .grad_scale = grad_scale};
      Update(step, parameter.data(cpu(0)), parameter.grad(cpu(0)), momenta_[i]);
    }
  }

 private:
  void Update(const Optimizer::Step& step, NDArray& weight, const NDArray& gradient, NDArray& momentum) {
    std::vector<Event> after = PendingUses(weight);
    after.push_back(ReadyToRead(weight));
    after.push_back(ReadyToRead(gradient));
    after.push_back(ReadyToRead(momentum));
    const Event done =
        EnqueueOn(weight.context(), "sgd", after, [this, step, weight, gradient, momentum]() mutable {
          auto* w = reinterpret_cast<float*>(MutableHostBytes(weight).data());
          auto* v = reinterpret_cast<float*>(MutableHostBytes(momentum).data());
          const auto* g = reinterpret_cast<const float*>(HostBytes(gradient).data());
          optimizer_->Update(step, w, w, g, &v, static_cast<size_t>(weight.size()));
        });
    AddReader(gradient, done);
    SetWriter(momentum, done);
    SetWriter(weight, done);
  }

  const nn::ParameterDict parameters_;
  const std::unique_ptr<const Optimizer> optimizer_;
  std::vector<NDArray> momenta_;
  int64_t num_update_ = 0;
};

struct Batch {
  NDArray images, labels;
};

Batch RandomBatch(int64_t n) {
  Rng rng(1);
  std::vector<float> pixels(static_cast<size_t>(n) * 28 * 28);
  for (float& pixel : pixels) pixel = static_cast<float>(rng.Uniform());
  std::vector<int32_t> labels(static_cast<size_t>(n));
  for (int32_t& label : labels) label = static_cast<int32_t>(rng.Below(10));
  return {NDArray::From(std::span<const float>(pixels), {n, 1, 28, 28}),
          NDArray::From(std::span<const int32_t>(labels), {n})};
}

nlohmann::json Measure() {
  Devices::Default()->SetThreadsPerCpuContext(FLAGS_threads);
  nn::Sequential net = nn::CreateModel(FLAGS_network);
  net.CollectParams().Initialize();
  const Batch batch = RandomBatch(FLAGS_batch_size);
  net(batch.images);  // deferred shapes
  Sgd sgd(net.CollectParams());
  const nn::SoftmaxCrossEntropyLoss loss;
  const auto run = [&](int steps) {
    NDArray losses, losses_before;
    for (int i = 0; i < steps; ++i) {
      losses_before = losses;
      {
        autograd::RecordScope record;
        losses = loss(net(batch.images), batch.labels);
      }
      autograd::Backward({losses});
      sgd.Step(1.0 / FLAGS_batch_size);
      if (losses_before.valid())
        losses_before.WaitToRead();  // as a progress bar does: one step is issued ahead, not all
    }
    WaitAll();
  };
  run(std::max(3, FLAGS_steps / 5));
  std::vector<double> rates;
  for (int repeat = 0; repeat < FLAGS_repeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    run(FLAGS_steps);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    rates.push_back(FLAGS_batch_size * FLAGS_steps / elapsed.count());
  }
  std::sort(rates.begin(), rates.end());
  return {{"framework", "sluice"},
          {"network", FLAGS_network},
          {"batch_size", FLAGS_batch_size},
          {"threads", FLAGS_threads},
          {"images_per_sec", rates[rates.size() / 2]},
          {"best_images_per_sec", rates.back()}};
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  try {
    sluice::runtime::ParseFlags(argc, argv,
                                "train_bench: images per second of training steps on one CPU device");
    for (const auto& [name, value] :
         {std::pair("batch-size", FLAGS_batch_size), std::pair("threads", FLAGS_threads),
          std::pair("steps", FLAGS_steps), std::pair("repeats", FLAGS_repeats)}) {
      if (value >= 1) continue;
      throw sluice::Error(sluice::ErrorCode::kInvalidArgument,
                          sluice::StrCat("--", name, " is ", value, "; it must be at least 1"));
    }
    const std::string result = sluice::Measure().dump() + "\n";
    std::cout << result;
    if (!FLAGS_json.empty()) sluice::WriteFileAtomically(FLAGS_json, {sluice::AsBytes(result)}).OrThrow();
    return 0;
  } catch (const sluice::Error& error) {
    std::cerr << "train_bench: " << error.what() << "\n";
    return 2;
  }
}
