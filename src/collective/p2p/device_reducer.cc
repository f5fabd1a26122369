#include "collective/gpu_sum.h"
#include "collective/host/work.h"
#include "collective/least_loaded.h"
#include "collective/reducer.h"

namespace sluice::collective {
namespace {

class DeviceReducer final : public Reducer {
 public:
  using Reducer::Reducer;
  Context Place(const std::vector<Context>& contexts, uint64_t bytes) override {
    return places_.Place(contexts, bytes);
  }
  bool AddsUpAt(Context place) const override { return place.kind == DeviceKind::kGpu; }

 protected:
  void DoReduce(std::span<const Reduction> sums) override {
    for (const auto& [values, out, exponent] : sums) {
      OnHost(*out) ? EnqueueSum(host_work(), values, out, 1, exponent)
                   : EnqueueSumOnGpu(values, out, exponent);
    }
  }

 private:
  LeastLoaded places_;
};

}  // namespace

std::unique_ptr<Reducer> MakeDeviceReducer(HostWork host_work) {
  return std::make_unique<DeviceReducer>(std::move(host_work));
}

}  // namespace sluice::collective
