#include "contract/device/backend.h"

#include <cstring>

#include "tensor/stream.h"

namespace sluice::testing {
namespace {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(int threads) : device_(MakeCpuDevice(0, {.threads = threads})) {}

  std::shared_ptr<std::byte> Allocate(size_t bytes) override {
    const auto buffer = std::make_shared<Buffer>(bytes, device_->allocator());
    return {buffer, buffer->data()};
  }
  void Upload(const std::byte* from, std::byte* to, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void Download(const std::byte* from, std::byte* to, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void Run(const std::function<void(Kernels&)>& work) override {
    device_->stream().Enqueue("kernel", {}, [&] { work(device_->kernels()); }).Wait();
  }

 private:
  const std::shared_ptr<Device> device_;
};

template <int kThreads>
std::shared_ptr<Backend> MakeCpu() {
  static const auto backend = std::make_shared<CpuBackend>(kThreads);
  return backend;
}

}  // namespace

const std::vector<BackendKind>& Backends() {
  static const std::vector<BackendKind> all = {{"cpu", MakeCpu<1>}, {"cpu_of_three_threads", MakeCpu<3>}};
  return all;
}

}  // namespace sluice::testing
