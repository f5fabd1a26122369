// Measures SGD with momentum in a store of one process (UpdateQueue), compared with a plain loop that does
// the same arithmetic at the speed of the memory. Their ratio shows what the path through the store costs. An
// element counts 20 bytes: gradient, weight and momentum are read, weight and momentum are written.
//
//   build/bin/update_bench --threads 2
#include <gflags/gflags.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

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
DEFINE_int32(threads, 1, "threads of the context");
DEFINE_int32(repeats, 15, "pairs of updates, the store's and the plain loop's; medians are reported");
DEFINE_string(json, "", "write the result object to this file");

namespace sluice {
namespace {

constexpr float kRate = 0.01f, kMomentum = 0.9f;
constexpr double kBytesPerElement = 20;

SLUICE_SIMD void PlainLoop(const float* g, float* w, float* v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    v[i] = kMomentum * v[i] - kRate * g[i];
    w[i] += v[i];
  }
}

std::vector<NDArray> Filled(double value) {
  std::vector<NDArray> arrays;
  for (int64_t i = 0; i < FLAGS_arrays; ++i) {
    const int64_t begin = FLAGS_elements * i / FLAGS_arrays, end = FLAGS_elements * (i + 1) / FLAGS_arrays;
    arrays.push_back(NDArray::Empty({end - begin}));
    arrays.back().Fill(value);
  }
  return arrays;
}

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

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
    for (int64_t key = 0; key < FLAGS_arrays; ++key) {
      keys_.emplace_back(key);
      values_.push_back({gradients_[static_cast<size_t>(key)]});
    }
    store_->Init(keys_, Filled(1));
    store_->SetOptimizer({.learning_rate = kRate, .momentum = kMomentum});
  }
  void Update() {
    store_->Push(keys_, values_);
    store_->WaitAll();
  }

 private:
  const std::shared_ptr<KVStore> store_ =
      std::make_shared<kvstore::LocalStore>("device", collective::MakeDeviceReducer());
  const std::vector<NDArray> gradients_ = Filled(0.5);
  std::vector<Key> keys_;
  std::vector<KVStore::Values> values_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

nlohmann::json Measure() {
  Devices::Default()->SetThreadsPerCpuContext(FLAGS_threads);
  Plain plain;
  Store store;
  WaitAll();
  std::vector<double> of_plain, of_store, ratios;
  for (int repeat = -2; repeat < FLAGS_repeats; ++repeat) {
    const double plain_seconds = Seconds([&] { plain.Update(); });
    const double store_seconds = Seconds([&] { store.Update(); });
    if (repeat < 0) continue;  // warm-up
    const double gigabytes = kBytesPerElement * static_cast<double>(FLAGS_elements) / 1e9;
    of_plain.push_back(gigabytes / plain_seconds);
    of_store.push_back(gigabytes / store_seconds);
    ratios.push_back(plain_seconds / store_seconds);
  }
  return {{"elements", FLAGS_elements},
          {"arrays", FLAGS_arrays},
          {"threads", FLAGS_threads},
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
    sluice::ParseFlags(argc, argv,
                       "update_bench: SGD with momentum on a store of one process, beside a plain loop");
    sluice::RequireAtLeast("arrays", FLAGS_arrays, 1);
    sluice::RequireAtLeast("elements", FLAGS_elements, FLAGS_arrays);
    sluice::RequireAtLeast("threads", FLAGS_threads, 1);
    sluice::RequireAtLeast("repeats", FLAGS_repeats, 1);
    const std::string result = sluice::Measure().dump() + "\n";
    std::cout << result;
    if (!FLAGS_json.empty()) sluice::WriteFileAtomically(FLAGS_json, {sluice::AsBytes(result)}).OrThrow();
    return 0;
  } catch (const sluice::Error& error) {
    std::cerr << "update_bench: " << error.what() << "\n";
    return 2;
  }
}
