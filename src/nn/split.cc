// Cuts a batch over devices, evenly or by work load (formulas: sluice/split.h).
//
// The slices are computed as intervals of rows first. Each then becomes a view, which is copied only
// where its context differs. SplitByWorkLoad rounds as MXNet's work_load_list does. Fit and programs
// call these functions on the training thread; all throw Error(kInvalidArgument).
#include "sluice/split.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/storage.h"

namespace sluice {
namespace {

[[noreturn]] void ThrowInvalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

void RequireData(const NDArray& data) {
  internal::RequireArray("splitting a batch", "the data", data);
}

std::vector<BatchSlice> SplitEvenly(const Shape& shape, int64_t num_slices, bool even_split) {
  if (num_slices < 1)
    ThrowInvalid(StrCat("cannot split data of shape ", shape, " into ", num_slices, " slices"));
  if (shape.ndim() == 0) ThrowInvalid("cannot split a scalar into slices: it has no batch axis");
  const int64_t batch = shape[0];
  if (batch < num_slices) {
    ThrowInvalid(StrCat("Too many slices for data with shape ", shape, ": num_slices=", num_slices,
                        " and batch_axis=0."));
  }
  if (even_split && batch % num_slices != 0) {
    ThrowInvalid(StrCat("data with shape ", shape, " cannot be evenly split into ", num_slices,
                        " slices along axis 0. Use a batch size that is a multiple of ", num_slices,
                        " or set even_split=false to allow uneven slices."));
  }
  std::vector<BatchSlice> slices;
  int64_t begin = 0;
  for (int64_t i = 0; i < num_slices; ++i) {
    const int64_t end = begin + batch / num_slices + (i < batch % num_slices ? 1 : 0);
    slices.push_back({begin, end});
    begin = end;
  }
  return slices;
}

// Returns slice i of `data` on contexts[i].
std::vector<NDArray> Load(const NDArray& data, const std::vector<BatchSlice>& slices,
                          const std::vector<Context>& contexts) {
  std::vector<NDArray> parts;
  for (size_t i = 0; i < slices.size(); ++i) {
    parts.push_back(data.SliceRows(slices[i].begin, slices[i].end).AsInContext(contexts[i]));
  }
  return parts;
}

}  // namespace

std::vector<BatchSlice> SplitByWorkLoad(int64_t batch, std::span<const double> work_load_list) {
  if (work_load_list.empty()) ThrowInvalid("the work load list is empty; give one number per device");
  for (const double load : work_load_list) {
    if (!std::isfinite(load) || load <= 0) {
      ThrowInvalid(StrCat("the work load list [", StrJoin(work_load_list), "] holds ", load,
                          "; loads are positive finite numbers"));
    }
  }
  const double total = std::accumulate(work_load_list.begin(), work_load_list.end(), 0.0);
  if (!std::isfinite(total * static_cast<double>(batch))) {
    ThrowInvalid(
        StrCat("the work load list [", StrJoin(work_load_list), "] is too large to add up; scale it down"));
  }
  std::vector<int64_t> sizes;
  for (const double load : work_load_list) {
    sizes.push_back(static_cast<int64_t>(std::nearbyint(load * static_cast<double>(batch) / total)));
  }
  sizes.back() += std::max<int64_t>(0, batch - std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
  std::vector<BatchSlice> slices;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    const int64_t end = std::min(begin + size, batch);
    if (begin >= end) {
      ThrowInvalid(StrCat("Too many slices. Some splits are empty. (batch ", batch, ", work load list [",
                          StrJoin(work_load_list), "])"));
    }
    slices.push_back({begin, end});
    begin = end;
  }
  return slices;
}

std::vector<NDArray> SplitData(const NDArray& data, int64_t num_slices, bool even_split) {
  RequireData(data);
  std::vector<NDArray> parts;
  for (const BatchSlice& slice : SplitEvenly(data.shape(), num_slices, even_split)) {
    parts.push_back(data.SliceRows(slice.begin, slice.end));
  }
  return parts;
}

std::vector<NDArray> SplitAndLoad(const NDArray& data, const std::vector<Context>& contexts,
                                  bool even_split) {
  RequireData(data);
  return Load(data, SplitEvenly(data.shape(), static_cast<int64_t>(contexts.size()), even_split), contexts);
}

std::vector<NDArray> SplitAndLoad(const NDArray& data, const std::vector<Context>& contexts,
                                  std::span<const double> work_load_list) {
  RequireData(data);
  if (data.shape().ndim() == 0) ThrowInvalid("cannot split a scalar into slices: it has no batch axis");
  if (work_load_list.size() != contexts.size()) {
    ThrowInvalid(StrCat("the work load list [", StrJoin(work_load_list), "] has ", work_load_list.size(),
                        " entries for ", contexts.size(), " contexts; give one per context"));
  }
  return Load(data, SplitByWorkLoad(data.shape()[0], work_load_list), contexts);
}

}  // namespace sluice
