#include "worker/event_completer.h"

#include "base/strings.h"
#include "kvstore/store_common.h"
#include "sluice/error.h"

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

}  // namespace sluice::worker
