// Issuer brings the operations of a store to its client. Those on one key reach the client in the order of
// the calls, even when the arrays of a later one are ready first.
#pragma once

#include <vector>

#include "worker/store/key_table.h"
#include "worker/store/store_context.h"

namespace sluice::worker {

// Thread safety: one thread at a time.
class Issuer {
 public:
  explicit Issuer(StoreContext& context) : context_(context) {}

  // Returns a batch for the operations that one call of the store issues on `keys` keys.
  CallBatch NewCallBatch(size_t keys);
  // Submits `op` to the client once the events of `after` have completed and everything issued before on this
  // key has been submitted: in `calls` if that is so already. From then on it has the store's timeout.
  // Returns the end of the operation.
  Event Issue(const Label& what, StoreKey& key, Events after, std::shared_ptr<Operation> op,
              CallBatch& calls);
  // Returns events that complete when everything issued so far has been submitted to the client.
  std::vector<Event> Unsubmitted();

 private:
  void ForgetSubmitted();  // drops the events of issuing_ that have completed

  StoreContext& context_;
  std::vector<Event> issuing_;  // StoreKey::issued of operations that are not submitted, and some that are
};

}  // namespace sluice::worker
