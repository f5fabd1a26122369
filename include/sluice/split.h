// Cutting a batch over devices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/ndarray.h"

namespace sluice {

struct BatchSlice {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const BatchSlice&) const = default;
};

// Slice i gets round(w_i * batch / sum w) samples (half to even), the shortfall goes to the last slice,
// overshoot is clipped: MXNet's work_load_list. Error(kInvalidArgument) when a slice would be empty ("Too
// many slices. Some splits are empty.") or a load is not a positive number.
std::vector<BatchSlice> SplitByWorkLoad(int64_t batch, std::span<const double> work_load_list);

// Views of `num_slices` parts along the first axis. With even_split a remainder is Error(kInvalidArgument);
// without it the first batch % num_slices parts hold one sample more. No part is ever empty.
std::vector<NDArray> SplitData(const NDArray& data, int64_t num_slices, bool even_split = true);

// SplitData with part i on contexts[i]: a view where it is there already, a copy otherwise. With a
// work_load_list, SplitByWorkLoad's cuts.
std::vector<NDArray> SplitAndLoad(const NDArray& data, const std::vector<Context>& contexts,
                                  bool even_split = true);
std::vector<NDArray> SplitAndLoad(const NDArray& data, const std::vector<Context>& contexts,
                                  std::span<const double> work_load_list);

}  // namespace sluice
