// The functions of this file make keys: the servers make them, and this worker learns where they lie. They
// are thread-safe.
#pragma once

#include <vector>

#include "worker/store/store_context.h"

namespace sluice::worker {

// For Init: returns the keys with their values, which are read in place, possibly after Init has returned.
// Waits until they can be read. Throws Error(kInvalidArgument) or Error(kAlreadyExists) when the arguments do
// not name each key once, with a value.
std::vector<InitArgs> DenseInits(const StoreContext& context, const std::vector<Key>& keys,
                                 const std::vector<NDArray>& values);
// Makes the keys of `args` on all servers, and waits for that. Returns all of them, also those that existed
// already.
std::vector<wire::KeyEntry> Declare(const StoreContext& context, const std::vector<InitArgs>& args);

}  // namespace sluice::worker
