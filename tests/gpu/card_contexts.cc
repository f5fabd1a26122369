// The devices on which the store contract is tried: cards of a test machine.
#include "contract/job.h"
#include "tensor/cuda/device.h"

namespace sluice::testing {

Context DeviceOf(const KVStore& store, int i) {
  return gpu(10 * store.rank() + i);
}

std::vector<std::string> LocalStoreTypes() {
  return {"local", "device", "nccl"};
}

DevicesOptions OptionsOfDevices() {
  DevicesOptions options;
  options.make_gpu = cuda::MakeCard;
  return options;
}

}  // namespace sluice::testing
