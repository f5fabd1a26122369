#include "worker/event_completer.h"

#include "base/strings.h"
#include "kvstore/store_common.h"
#include "sluice/error.h"
#include "worker/operation.h"

namespace sluice::worker {

void EventCompleter::operator()(const Status& status) const {
  if (status.ok()) return event.Complete();
  const Failure& failure = status.failure();
  event.Complete(std::make_exception_ptr(Error(failure.code, kvstore::Named(event.what(), failure.message))));
}

void CompleteAbandoned(const Event& event) {
  event.Complete(std::make_exception_ptr(
      Error(ErrorCode::kCancelled, StrCat(event.what(), ": this worker has left its job"))));
}

void FailKeys(Operation& op, const std::exception_ptr& error) {
  for (PerKeyOp& key : op.keys) {
    if (key.callback) key.callback(FailureOf(error));
  }
}

}  // namespace sluice::worker
