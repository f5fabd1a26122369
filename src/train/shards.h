// A batch, cut over the devices of a process. Internal to train/.
#pragma once

#include <vector>

#include "sluice/context.h"
#include "sluice/data.h"
#include "sluice/ndarray.h"

namespace sluice::train {

struct Shards {
  std::vector<NDArray> images, labels;
};

// Copies the batch to the contexts, cut by `work_load`, or into equal slices if that is empty. A batch
// with fewer samples than contexts goes to the first context alone. An empty batch gives no arrays.
Shards Load(const Batch& batch, const std::vector<Context>& contexts, const std::vector<double>& work_load);

}  // namespace sluice::train
