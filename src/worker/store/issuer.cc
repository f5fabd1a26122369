#include "worker/store/issuer.h"

#include <algorithm>

namespace sluice::worker {

// When no other operation is open, the caller has nothing to overlap with this call, so the loop
// may run it in the caller's thread.
CallBatch Issuer::NewCallBatch(size_t keys) {
  return {context_.client(), keys, context_.outstanding().AllDone(), context_.records()};
}

Event Issuer::Issue(const Label& what, StoreKey& key, Events after, std::shared_ptr<Operation> op,
                    CallBatch& calls) {
  const Duration timeout = context_.Timeout();
  Event done = context_.MakeEnd(what, calls.may_run_inline());
  context_.outstanding().Add(what, done);
  after.push_back(key.issued);
  if (std::all_of(after.begin(), after.end(), [](const Event& event) { return event.Succeeded(); })) {
    calls.Add(std::move(op), timeout, done);
    return done;
  }
  key.issued = Event::Make(what, nullptr, context_.records());
  if (issuing_.size() == issuing_.capacity()) {
    ForgetSubmitted();
    issuing_.reserve(2 * issuing_.size() + 1);  // so that each event is looked at once on average
  }
  issuing_.push_back(key.issued);
  auto submit = [client = context_.client(), op = std::move(op), timeout, done,
                 issued = key.issued](const std::exception_ptr& error) mutable {
    error == nullptr ? client.Submit(std::move(op), timeout, done, false) : done.Complete(error);
    issued.Complete();  // last: it may submit the key's next operation, in this thread
  };
  static_assert(kvstore::WhenAllDone::kFits<decltype(submit)>);
  kvstore::WhenAll(after, std::move(submit), context_.records());
  return done;
}

std::vector<Event> Issuer::Unsubmitted() {
  ForgetSubmitted();
  return issuing_;
}

void Issuer::ForgetSubmitted() {
  std::erase_if(issuing_, [](const Event& event) { return event.Done(); });
}

}  // namespace sluice::worker
