// CurrentCard: what the thread had is asked of the runtime, and whether a card is open of the driver, whose
// functions the runtime names: it has no question of its own that does not open the card.
#include "tensor/cuda/current_card.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include "base/strings.h"
#include "sluice/context.h"
#include "tensor/cuda/error.h"

namespace sluice::cuda {
namespace {

// Returns the driver's function of that name as of CUDA 12.0, or null.
template <typename Function>
Function DriverFunction(const char* name) {
  constexpr unsigned kVersion = 12000;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &function, kVersion, cudaEnableDefault, &found);
  return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? reinterpret_cast<Function>(function)
                                                                      : nullptr;
}

bool IsOpen(int card) {
  const auto device_of = DriverFunction<PFN_cuDeviceGet_v2000>("cuDeviceGet");
  const auto state_of = DriverFunction<PFN_cuDevicePrimaryCtxGetState_v7000>("cuDevicePrimaryCtxGetState");
  CUdevice device = 0;
  unsigned flags = 0;
  int active = 0;
  if (device_of == nullptr || state_of == nullptr) return false;
  return device_of(&device, card) == CUDA_SUCCESS && state_of(device, &flags, &active) == CUDA_SUCCESS &&
         active != 0;
}

}  // namespace

CurrentCard::CurrentCard(int card) {
  Require(Set(card), StrCat("cudaSetDevice of ", gpu(card)));
}

CurrentCard::CurrentCard(int card, std::nothrow_t) noexcept {
  if (Set(card) != cudaSuccess) static_cast<void>(cudaGetLastError());  // CUDA would report it again
}

cudaError_t CurrentCard::Set(int card) noexcept {
  if (const cudaError_t error = cudaGetDevice(&before_); error != cudaSuccess) return error;
  const bool was_open = before_ != card && IsOpen(before_);
  const cudaError_t error = cudaSetDevice(card);
  changed_ = error == cudaSuccess && was_open;
  return error;
}

CurrentCard::~CurrentCard() {
  if (changed_) static_cast<void>(cudaSetDevice(before_));
}

}  // namespace sluice::cuda
