// A server program of one's own: the stock server with an update function in place of the stock optimisers.
//
//   int main(int argc, char** argv) {
//     sluice::ServerOptions options;
//     options.updater = [](const sluice::UpdateContext& c, std::span<const float> gradient, std::span<float>
//     weight) {
//       for (size_t i = 0; i < weight.size(); ++i) weight[i] -= 0.1f * gradient[i];
//     };
//     return sluice::RunServer(options);   // reads DMLC_* and SLUICE_* from the environment; returns the
//     exit code
//   }
//
// Started by `tools/launch.py --server-command ./my_server ...`.
#pragma once

#include "sluice/updater.h"

namespace sluice {

struct ServerOptions {
  ServerUpdater updater;  // empty: assign, or the optimiser that the workers set
};

int RunServer(const ServerOptions& options);

}  // namespace sluice
