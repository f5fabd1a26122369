#include "collective/gpu_sum.h"

#include <vector>

#include "tensor/kernels.h"
#include "tensor/storage.h"

namespace sluice::collective {

void EnqueueSumOnGpu(std::span<const NDArray> values, NDArray* out, uint32_t exponent) {
  const Context context = out->context();
  std::vector<NDArray> here;
  InlineVector<internal::Data<const std::byte>, 8> data;
  for (const NDArray& value : values) {
    here.push_back(value);
    if (value.context() != context) {
      here.back() = NDArray::Empty(value.shape(), context, value.dtype());
      value.CopyTo(&here.back());
    }
    data.push_back(internal::DataOf<const std::byte>(here.back()));
  }
  internal::Launch("sum of gradients", context, here, {*out},
                   [type = out->dtype(), data = std::move(data), exponent,
                    to = internal::DataOf<std::byte>(*out), n = out->size()](Kernels& k) {
                     InlineVector<const void*, 8> arrays;
                     for (const auto& array : data) arrays.push_back(array.get());
                     k.AddUp({.dtype = type,
                              .arrays = {arrays.data(), arrays.size()},
                              .exponent = exponent,
                              .out = to,
                              .n = n});
                   });
}

}  // namespace sluice::collective
