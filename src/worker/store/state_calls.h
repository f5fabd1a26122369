// The functions of this file call the client about one key's rounds, updates and states. They are
// thread-safe.
#pragma once

#include <memory>

#include "base/buffer.h"
#include "worker/store/store_context.h"
#include "worker/store/store_key_table.h"

namespace sluice::worker {

// Each of these starts a call and returns its end.
Event AskForRounds(const StoreContext& context, const StoreKey& key);
Event AskForUpdates(const StoreContext& context, const StoreKey& key, std::shared_ptr<uint64_t> num_updates);
Event AskForState(const StoreContext& context, const StoreKey& key, uint32_t slot,
                  const std::shared_ptr<Buffer>& buffer);
Event AskToStore(const StoreContext& context, const StoreKey& key, uint32_t slot, uint64_t num_updates,
                 const Frame& frame);

// These wait for the end and throw its error.
void AwaitRounds(const StoreContext& context, const StoreKey& key);
uint64_t PullUpdates(const StoreContext& context, const StoreKey& key);

}  // namespace sluice::worker
