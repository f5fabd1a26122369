// Measures SGD with momentum in a store of one process, compared with a plain loop that does the same
// arithmetic at the speed of the memory, or, on a GPU, with a copy of as many bytes. Their ratio shows what
// the path through the store costs. An element counts 20 bytes: gradient, weight and momentum are read,
// weight and momentum are written. On a GPU the new weights are pulled as well, into other arrays, and each
// of --contexts has a gradient and such an array: 4 bytes more, and 8 for each further context.
//
//   build/bin/update_bench --threads 2
//   build/bin/update_bench --gpu 0 --shapes resnet50 --contexts 2
#include <gflags/gflags.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/file.h"
#include "base/simd.h"
#include "base/strings.h"
#include "kvstore/local/local_store.h"
#include "sluice/error.h"
#include "sluice/flags.h"
#include "tensor/access.h"
#include "tensor/devices.h"

DEFINE_int64(elements, 25'000'000, "float32 elements in all");
DEFINE_int32(arrays, 1, "keys that share them");
DEFINE_string(shapes, "", "resnet50: its 161 arrays, 25.6 M elements, in place of the two flags above");
DEFINE_int32(gpu, -1, "the GPU that computes; -1: a CPU");
DEFINE_int32(contexts, 1, "with --gpu, contexts of it whose gradients are added up, 1 or 2");
DEFINE_int32(threads, 1, "threads of the context");
DEFINE_int32(repeats, 15, "pairs of updates, the store's and the plain loop's; medians are reported");
DEFINE_string(json, "", "write the result object to this file");

namespace sluice {
namespace {

constexpr float kRate = 0.01f, kMomentum = 0.9f;

SLUICE_SIMD void PlainLoop(const float* g, float* w, float* v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    v[i] = kMomentum * v[i] - kRate * g[i];
    w[i] += v[i];
  }
}

Context Place() {
  return FLAGS_gpu < 0 ? cpu(0) : gpu(FLAGS_gpu);
}

int64_t BytesPerElement() {
  return FLAGS_gpu < 0 ? 20 : 16 + 8 * FLAGS_contexts;
}

// The sizes of ResNet-50's parameters (https://arxiv.org/abs/1512.03385, table 1): each convolution has a
// weight and a normalisation of two arrays.
std::vector<int64_t> SizesOfResNet50() {
  std::vector<int64_t> sizes;
  const auto convolution = [&](int64_t in, int64_t out, int64_t window) {
    for (const int64_t size : {in * out * window * window, out, out}) sizes.push_back(size);
  };
  convolution(3, 64, 7);
  int64_t in = 64;
  for (const auto& [blocks, width] : {std::pair(3, 64), {4, 128}, {6, 256}, {3, 512}})
    for (int block = 0; block < blocks; ++block) {
      if (block == 0) convolution(in, 4 * width, 1);
      convolution(in, width, 1);
      convolution(width, width, 3);
      convolution(width, 4 * width, 1);
      in = 4 * width;
    }
  for (const int64_t size : {in * 1000, int64_t{1000}}) sizes.push_back(size);
  return sizes;
}

std::vector<int64_t> Sizes() {
  if (!FLAGS_shapes.empty()) return SizesOfResNet50();
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < FLAGS_arrays; ++i)
    sizes.push_back(FLAGS_elements * (i + 1) / FLAGS_arrays - FLAGS_elements * i / FLAGS_arrays);
  return sizes;
}

std::vector<NDArray> Filled(double value) {
  std::vector<NDArray> arrays;
  for (const int64_t size : Sizes()) {
    arrays.push_back(NDArray::Empty({size}, Place()));
    arrays.back().Fill(value);
  }
  return arrays;
}

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A copy on the GPU that reads and writes as many bytes as the updates.
class Copies {
 public:
  void Update() { from_.CopyTo(&to_); }

 private:
  static NDArray Half() {
    const std::vector<int64_t> sizes = Sizes();
    const int64_t elements = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    NDArray array = NDArray::Empty({elements * BytesPerElement() / 8}, Place());
    array.Fill(0);
    return array;
  }
  NDArray from_ = Half(), to_ = Half();
};

// The plain loop. It runs on the context's stream and threads, as the store's updates do.
class Plain {
 public:
  void Update() {
    EnqueueOn(cpu(0), "plain loops", {}, [this] {
      for (size_t i = 0; i < weights_.size(); ++i) {
        const auto* g = reinterpret_cast<const float*>(HostBytes(gradients_[i]).data());
        auto* w = reinterpret_cast<float*>(MutableHostBytes(weights_[i]).data());
        auto* v = reinterpret_cast<float*>(MutableHostBytes(momenta_[i]).data());
        ForPieces(weights_[i].size(), 1 << 14, [&](int64_t begin, int64_t end) {
          PlainLoop(g + begin, w + begin, v + begin, end - begin);
        });
      }
    }).Wait();
  }

 private:
  std::vector<NDArray> gradients_ = Filled(0.5), weights_ = Filled(1), momenta_ = Filled(0);
};

class Store {
 public:
  Store() {
    for (size_t i = 0; i < Sizes().size(); ++i) {
      keys_.emplace_back(static_cast<int64_t>(i));
      values_.emplace_back();
      outs_.emplace_back();
      for (const Copy& copy : copies_) {
        values_.back().push_back(copy.gradients[i]);
        outs_.back().push_back(copy.weights[i]);
      }
    }
    store_->Init(keys_, Filled(1));
    store_->SetOptimizer({.learning_rate = kRate, .momentum = kMomentum});
  }
  void Update() { FLAGS_gpu < 0 ? store_->Push(keys_, values_) : store_->PushPull(keys_, values_, outs_); }

 private:
  const std::shared_ptr<KVStore> store_ =
      std::make_shared<kvstore::LocalStore>("device", collective::MakeDeviceReducer());
  // What a context has of every key.
  struct Copy {
    std::vector<NDArray> gradients = Filled(0.5), weights = Filled(0);
  };
  const std::vector<Copy> copies_ = std::vector<Copy>(static_cast<size_t>(FLAGS_contexts));
  std::vector<Key> keys_;
  std::vector<KVStore::Values> values_, outs_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// `plain` and `store` are updated in turn. A GPU makes several updates for each measurement, since the host
// takes some time to begin and to hear of the end.
template <typename Yardstick>
nlohmann::json Measure(Yardstick plain) {
  Store store;
  WaitAll();
  const int updates = FLAGS_gpu < 0 ? 1 : 20;
  const std::vector<int64_t> sizes = Sizes();
  const int64_t elements = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const auto seconds = [updates](auto& of) {
    return Seconds([&] {
             for (int i = 0; i < updates; ++i) of.Update();
             WaitAll();
           }) /
           updates;
  };
  std::vector<double> of_plain, of_store, ratios;
  for (int repeat = -2; repeat < FLAGS_repeats; ++repeat) {
    const double plain_seconds = seconds(plain);
    const double store_seconds = seconds(store);
    if (repeat < 0) continue;  // warm-up
    const double gigabytes = static_cast<double>(BytesPerElement() * elements) / 1e9;
    of_plain.push_back(gigabytes / plain_seconds);
    of_store.push_back(gigabytes / store_seconds);
    ratios.push_back(plain_seconds / store_seconds);
  }
  return {{"elements", elements},
          {"arrays", sizes.size()},
          {"threads", FLAGS_threads},
          {"gpu", FLAGS_gpu},
          {"contexts", FLAGS_contexts},
          {"store_gb_per_sec", Median(of_store)},
          {"plain_gb_per_sec", Median(of_plain)},
          {"ratio", Median(ratios)}};
}

void RequireAtLeast(const char* flag, int64_t value, int64_t least) {
  if (value >= least) return;
  throw Error(ErrorCode::kInvalidArgument,
              StrCat("--", flag, " is ", value, "; it must be at least ", least));
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  try {
    sluice::ParseFlags(
        argc, argv,
        "update_bench: SGD with momentum on a store of one process, beside a plain loop or, on a "
        "GPU, beside a copy of as many bytes");
    sluice::RequireAtLeast("arrays", FLAGS_arrays, 1);
    sluice::RequireAtLeast("elements", FLAGS_elements, FLAGS_arrays);
    sluice::RequireAtLeast("contexts", FLAGS_contexts, 1);
    if (FLAGS_contexts > (FLAGS_gpu < 0 ? 1 : 2))
      throw sluice::Error(sluice::ErrorCode::kInvalidArgument,
                          sluice::StrCat("--contexts is ", FLAGS_contexts, "; there is 1, or 2 with --gpu"));
    sluice::RequireAtLeast("threads", FLAGS_threads, 1);
    sluice::RequireAtLeast("repeats", FLAGS_repeats, 1);
    if (!FLAGS_shapes.empty() && FLAGS_shapes != "resnet50")
      throw sluice::Error(sluice::ErrorCode::kInvalidArgument,
                          sluice::StrCat("--shapes is '", FLAGS_shapes, "'; there is resnet50"));
    sluice::Devices::Default()->SetThreadsPerCpuContext(FLAGS_threads);
    const nlohmann::json figures =
        FLAGS_gpu < 0 ? sluice::Measure(sluice::Plain()) : sluice::Measure(sluice::Copies());
    const std::string result = figures.dump() + "\n";
    std::cout << result;
    if (!FLAGS_json.empty()) sluice::WriteFileAtomically(FLAGS_json, {sluice::AsBytes(result)}).OrThrow();
    return 0;
  } catch (const sluice::Error& error) {
    std::cerr << "update_bench: " << error.what() << "\n";
    return 2;
  }
}
