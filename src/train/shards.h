// A batch, cut over the devices of a process. Internal to train/.
#pragma once

#include <string_view>
#include <vector>

#include "sluice/context.h"
#include "sluice/data.h"
#include "sluice/ndarray.h"
#include "sluice/nn.h"

namespace sluice::train {

// Returns the contexts to which batches for `net` are copied: `asked` or, for a PlacedSequential, that of its
// first stage. Throws Error(kInvalidArgument), whose message begins with `call`, if `asked` is empty or names
// several contexts for a PlacedSequential.
std::vector<Context> ContextsOf(nn::Layer& net, const std::vector<Context>& asked, std::string_view call);

struct Shards {
  std::vector<NDArray> images, labels;
};

// Copies the batch to the contexts, cut by `work_load`, or into equal slices if that is empty. A batch
// with fewer samples than contexts goes to the first context alone. An empty batch gives no arrays.
Shards Load(const Batch& batch, const std::vector<Context>& contexts, const std::vector<double>& work_load);

}  // namespace sluice::train
