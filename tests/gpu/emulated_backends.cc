#include "gpu/cuda_backend.h"
#include "gpu/runtime/machine.h"

namespace sluice::testing {
namespace {

std::shared_ptr<Backend> MakeEmulated() {
  static emulation::Machine machine;
  static const std::shared_ptr<Backend> backend = MakeCudaBackend();
  return backend;
}

}  // namespace

const std::vector<BackendKind>& Backends() {
  static const std::vector<BackendKind> all = {{"emulated", MakeEmulated}};
  return all;
}

}  // namespace sluice::testing
