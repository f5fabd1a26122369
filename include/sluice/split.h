// Functions that divide a batch among devices.
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

// Divides `batch` samples as MXNet's work_load_list does: slice i gets round(w_i * batch / sum w) samples
// (half to even), the last slice gets what is then missing, and what is too much is clipped. Throws
// Error(kInvalidArgument) when a slice would be empty ("Too many slices. Some splits are empty.") or a load
// is not a positive number.
std::vector<BatchSlice> SplitByWorkLoad(int64_t batch, std::span<const double> work_load_list);

// Returns views of `num_slices` parts of `data` along the first axis, none of them empty. If the parts cannot
// be equal, SplitData throws Error(kInvalidArgument); with even_split = false the first batch % num_slices
// parts have one sample more instead.
std::vector<NDArray> SplitData(const NDArray& data, int64_t num_slices, bool even_split = true);

// Split `data` as SplitData or, with a work_load_list, SplitByWorkLoad does, and return part i on
// contexts[i]. The part is a view if `data` is on that context already, else a copy.
std::vector<NDArray> SplitAndLoad(const NDArray& data, const std::vector<Context>& contexts,
                                  bool even_split = true);
std::vector<NDArray> SplitAndLoad(const NDArray& data, const std::vector<Context>& contexts,
                                  std::span<const double> work_load_list);

}  // namespace sluice
