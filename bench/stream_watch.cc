#include "stream_watch.h"

#include <utility>

namespace sluice::bench {
namespace {

class CostWatcher final : public StreamWatcher {
 public:
  explicit CostWatcher(std::shared_ptr<OperationWatcher> watcher) : watcher_(std::move(watcher)) {}
  void OnBegin() override { TakeCost(); }
  void OnOperation(const StreamOperation& operation) override {
    watcher_->OnOperation(Operation{operation, TakeCost()});
  }

 private:
  const std::shared_ptr<OperationWatcher> watcher_;
};

}  // namespace

void UseDevices(int threads_per_cpu_context, std::shared_ptr<OperationWatcher> watcher) {
  DevicesOptions options{.threads_per_cpu_context = threads_per_cpu_context};
  if (watcher != nullptr) {
    options.wrap_device =
        [costs = std::make_shared<CostWatcher>(std::move(watcher))](std::shared_ptr<Device> device) {
          auto counted = CountCosts(device->kernels());
          return Watched(cpu(0), std::move(device), costs, std::move(counted));
        };
  }
  Devices::SetDefault(std::make_shared<Devices>(options));
}

}  // namespace sluice::bench
