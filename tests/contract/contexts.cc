// The devices on which the store contract is tried: contexts of the CPU.
#include "contract/job.h"

namespace sluice::testing {

Context DeviceOf(const KVStore& store, int i) {
  return cpu(10 * store.rank() + i);
}

std::vector<std::string> LocalStoreTypes() {
  return {"local", "device"};
}

DevicesOptions OptionsOfDevices() {
  return {};
}

}  // namespace sluice::testing
