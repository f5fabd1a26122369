// Issuer brings the operations of a store to its client. Those on one key reach the client in the order of
// the calls, even when the arrays of a later one are ready first.
#pragma once

#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "worker/store/store_context.h"
#include "worker/store/store_key_table.h"

namespace sluice::worker {

// What the operations of one call on ranges of a key (Operation::range) share. They are submitted one after
// the other; once one is not, neither are those behind it.
struct CallOnRanges {
  const ClientLoop client;
  const OpKind kind;
  const uint32_t key;
  const Event ended;         // Issuer::EndRanges has been heeded
  bool begun = false;        // one has been submitted
  std::exception_ptr error;  // why one was not
};

// Thread safety: one thread at a time.
class Issuer {
 public:
  explicit Issuer(StoreContext& context) : context_(context) {}

  // Returns a batch for the operations that one call of the store issues on `keys` keys.
  CallBatch NewCallBatch(size_t keys);
  // Submits `op` to the client once the events of `after` have completed and everything issued before on this
  // key has been submitted: in `calls` if that is so already. From then on it has the store's timeout.
  // Returns the end of the operation. `ranges` is that of the operation's call, if it has several for this
  // key: if one of a push cannot be submitted after others were, the key fails on this worker from that round
  // on. The caller adds the end of such a call to the store's outstanding operations.
  Event Issue(const Label& what, StoreKey& key, Events after, std::shared_ptr<Operation> op, CallBatch& calls,
              const std::shared_ptr<CallOnRanges>& ranges = nullptr);
  // The same for an operation on several keys.
  Event Issue(const Label& what, std::span<StoreKey* const> keys, Events after, std::shared_ptr<Operation> op,
              CallBatch& calls, const std::shared_ptr<CallOnRanges>& ranges = nullptr);
  std::shared_ptr<CallOnRanges> NewCallOnRanges(OpKind kind, const StoreKey& key);
  // Notes that the call has no more operations, since making one has failed: as for one that cannot be
  // submitted.
  static void EndRanges(StoreKey& key, const std::shared_ptr<CallOnRanges>& ranges,
                        const std::exception_ptr& error);
  // Returns events that complete when everything issued so far has been submitted to the client.
  std::vector<Event> Unsubmitted();

 private:
  void ForgetSubmitted();  // drops the events of issuing_ that have completed

  StoreContext& context_;
  uint64_t issues_ = 0;         // how many could not be submitted at once
  std::vector<Event> issuing_;  // StoreKey::issued of operations that are not submitted, and some that are
};

}  // namespace sluice::worker
