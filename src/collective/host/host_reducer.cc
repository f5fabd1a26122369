#include "collective/host/work.h"
#include "collective/reducer.h"

namespace sluice::collective {
namespace {

class HostReducer final : public Reducer {
 public:
  HostReducer(int threads, HostWork host_work) : Reducer(std::move(host_work)), threads_(threads) {}
  // A stream beside those that compute.
  Context Place(const std::vector<Context>&, uint64_t) override { return cpu_pinned(0); }

 protected:
  void DoReduce(const std::vector<NDArray>& values, NDArray* out) override {
    std::vector<NDArray> here;
    for (const NDArray& value : values) {
      here.push_back(value.context().kind == DeviceKind::kGpu ? value.AsInContext(out->context()) : value);
    }
    EnqueueSum(host_work(), here, out, threads_);
  }

 private:
  const int threads_;
};

}  // namespace

std::unique_ptr<Reducer> MakeHostReducer(int threads, HostWork host_work) {
  return std::make_unique<HostReducer>(threads, std::move(host_work));
}

}  // namespace sluice::collective
