#include "gpu/cuda_backend.h"

namespace sluice::testing {
namespace {

std::shared_ptr<Backend> MakeCard() {
  static const std::shared_ptr<Backend> backend = MakeCudaBackend();
  return backend;
}

}  // namespace

const std::vector<BackendKind>& Backends() {
  static const std::vector<BackendKind> all = {{"gpu", MakeCard}};
  return all;
}

}  // namespace sluice::testing
