#include <algorithm>
#include <map>

#include "collective/host/work.h"
#include "collective/reducer.h"

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
  // GPUs compute in float32 alone, so no sum has an exponent there.
  void DoReduce(const std::vector<NDArray>& values, NDArray* out, uint32_t exponent) override {
    if (out->context().kind != DeviceKind::kGpu) return EnqueueSum(host_work(), values, out, 1, exponent);
    NDArray sum = values[0].AsInContext(out->context());
    for (size_t i = 1; i < values.size(); ++i) sum = sum + values[i].AsInContext(out->context());
    sum.CopyTo(out);
  }

 private:
  std::map<Context, uint64_t> load_;
};

}  // namespace

std::unique_ptr<Reducer> MakeDeviceReducer(HostWork host_work) {
  return std::make_unique<DeviceReducer>(std::move(host_work));
}

}  // namespace sluice::collective
