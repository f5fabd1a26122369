#include "collective/host/work.h"
#include "collective/reducer.h"

namespace sluice::collective {
namespace {

class HostReducer final : public Reducer {
 public:
  HostReducer(int threads, HostWork host_work) : Reducer(std::move(host_work)), threads_(threads) {}
  // Sums run on a stream of their own, beside the devices that compute. A single CPU device gets them on its
  // own stream, since the threads of two streams would share the cores.
  Context Place(const std::vector<Context>& contexts, uint64_t) override {
    const bool only_one = contexts.size() == 1 && contexts.front().kind == DeviceKind::kCpu;
    if (only_one) return contexts.front();
    return contexts.front().kind == DeviceKind::kGpu ? HostContextOf(contexts.front()) : cpu_pinned(0);
  }

 protected:
  void DoReduce(std::span<const Reduction> sums) override {
    for (const Reduction& sum : sums) EnqueueSum(host_work(), sum.values, sum.out, threads_, sum.exponent);
  }

 private:
  const int threads_;
};

}  // namespace

std::unique_ptr<Reducer> MakeHostReducer(int threads, HostWork host_work) {
  return std::make_unique<HostReducer>(threads, std::move(host_work));
}

}  // namespace sluice::collective
