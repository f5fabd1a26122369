// The network of a training program: on each of the program's devices, or, with --group2ctx, with its layers
// spread over them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sluice/context.h"
#include "sluice/data.h"
#include "sluice/loss.h"
#include "sluice/nn.h"
#include "sluice/optimizer.h"

namespace sluice::examples {

struct Network {
  std::unique_ptr<nn::Layer> net;  // its parameters are not initialised
  std::vector<Context> contexts;   // the devices it lies on
  bool placed = false;             // whether its layers are spread over them
  std::string plan;                // a table, if the program has chosen where the layers lie
};

// Makes the network with `make`, whose parameters are not initialised. `make` may be called twice. Throws
// Error(kInvalidArgument) if --group2ctx does not suit the network, the devices or other flags.
Network PlaceNetwork(const std::function<nn::Sequential()>& make, const Dataset& train, const nn::Loss& loss,
                     const OptimizerConfig& optimizer);
// Returns --micro-batches for a placed network, else 0.
int64_t MicroBatches();
// Throws Error(kInvalidArgument) for values of --group2ctx and --micro-batches that suit no network, or not
// the other flags.
void CheckPlacement();
// Returns a line that says how much memory the arrays of each context took at most.
std::string DescribeMemory(const std::vector<Context>& contexts);

}  // namespace sluice::examples
