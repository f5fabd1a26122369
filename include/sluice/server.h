// A server program of one's own: the stock server with an update function in place of the stock optimisers.
//
//   int main(int argc, char** argv) {
//     sluice::ServerOptions options;
//     options.updater = [](const sluice::UpdateContext& c, std::span<const float> gradient, std::span<float> weight) {
//       for (size_t i = 0; i < weight.size(); ++i) weight[i] -= 0.1f * gradient[i];
//     };
//     return sluice::RunServer(options);   // reads DMLC_* and SLUICE_* from the environment; returns the exit code
//   }
//
// Started by `tools/launch.py --server-command ./my_server ...`.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "sluice/dtype.h"

namespace sluice {

// Where the elements of one call lie.
struct UpdateContext {
  std::string key;      // as the worker named it
  int64_t offset = 0;   // of the first element, within the key
  uint64_t round = 0;   // the round that closes (dist_sync) or the number of the push (dist_async), from 1
  uint64_t samples = 0; // sum of the sample counts of the pushes
  DType dtype = DType::kFloat32;  // as stored; spans are float32 for 16-bit and 32-bit floats
};

// Called with a block of a key's elements: the gradient summed in rank order and divided by the push's divisor, and the weight to change in place. Blocks of one key come
// from one thread, blocks of different keys from several. Must not throw, must not keep the spans. Keys that are not float32, float16 or bfloat16 are refused at Init.
using ServerUpdater =
    std::function<void(const UpdateContext& context, std::span<const float> gradient, std::span<float> weight)>;

struct ServerOptions {
  ServerUpdater updater;  // empty: assign, or the optimiser that the workers set
};

int RunServer(const ServerOptions& options);

}  // namespace sluice
