// A batch on its devices. Internal to train/.
#pragma once

#include <vector>

#include "sluice/context.h"
#include "sluice/data.h"
#include "sluice/ndarray.h"

namespace sluice::train {

struct Shards {
  std::vector<NDArray> images, labels;
};

// Cut by work load, or into equal slices without one; a batch with fewer samples than contexts goes to the
// first. Nothing for an empty batch.
Shards Load(const Batch& batch, const std::vector<Context>& contexts, const std::vector<double>& work_load);

}  // namespace sluice::train
