#include <algorithm>
#include <map>

#include "collective/host/work.h"
#include "collective/reducer.h"
#include "tensor/kernels.h"
#include "tensor/storage.h"

namespace sluice::collective {
namespace {

class DeviceReducer final : public Reducer {
 public:
  using Reducer::Reducer;
  Context Place(const std::vector<Context>& contexts, uint64_t bytes) override {
    const Context least =
        *std::min_element(contexts.begin(), contexts.end(), [this](const Context& a, const Context& b) {
          return std::pair(load_[a], a) < std::pair(load_[b], b);
        });
    load_[least] += bytes;
    return least;
  }

 protected:
  void DoReduce(const std::vector<NDArray>& values, NDArray* out, uint32_t exponent) override {
    const Context context = out->context();
    if (context.kind != DeviceKind::kGpu) return EnqueueSum(host_work(), values, out, 1, exponent);
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

 private:
  std::map<Context, uint64_t> load_;
};

}  // namespace

std::unique_ptr<Reducer> MakeDeviceReducer(HostWork host_work) {
  return std::make_unique<DeviceReducer>(std::move(host_work));
}

}  // namespace sluice::collective
