// Issuer submits operations when their arrays are ready. It owns no operation: each lies in a callback of the
// last event that it waits for. Invariant: what is issued on a key is submitted in order, since each waits
// for the submission of the one before (StoreKey::issued). The parts of a DistStore call it, with the
// store's mutex held; submissions run on the threads that complete events.
#include "worker/store/issuer.h"

#include <algorithm>
#include <utility>

namespace sluice::worker {
namespace {

// Notes that an operation is not submitted. The servers may have a part of its round by now, and never get
// the rest.
void NoteFailure(CallOnRanges& ranges, const std::exception_ptr& error) {
  if (ranges.error != nullptr) return;
  ranges.error = error;
  if (!ranges.begun || (ranges.kind != OpKind::kPush && ranges.kind != OpKind::kPushPull)) return;
  ranges.client.Run([key = ranges.key, failure = FailureOf(error)](
                        Client& client, Time now, transport::Network& network,
                        const EventCompleter&) { client.FailLastRound(now, key, failure, network); },
                    Event(), false);
}

}  // namespace

// When no other operation is open, the caller has nothing to overlap with this call, so the loop
// may run it in the caller's thread.
CallBatch Issuer::NewCallBatch(size_t keys) {
  return {context_.client(), keys, context_.outstanding().AllDone(), context_.records()};
}

Event Issuer::Issue(const Label& what, StoreKey& key, Events after, std::shared_ptr<Operation> op,
                    CallBatch& calls, const std::shared_ptr<CallOnRanges>& ranges) {
  StoreKey* const keys[] = {&key};
  return Issue(what, keys, std::move(after), std::move(op), calls, ranges);
}

Event Issuer::Issue(const Label& what, std::span<StoreKey* const> keys, Events after,
                    std::shared_ptr<Operation> op, CallBatch& calls,
                    const std::shared_ptr<CallOnRanges>& ranges) {
  const Duration timeout = context_.Timeout();
  Event done = context_.MakeEnd(what, calls.may_run_inline());
  if (ranges == nullptr) context_.outstanding().Add(what, done);
  for (const StoreKey* key : keys) {
    after.push_back(key->issued);
    if (!key->traced.Done()) after.push_back(key->traced);  // so that the stages are reported in order
  }
  // What is collected in `calls` reaches the client later than the failure of a range would.
  if (ranges == nullptr && std::ranges::all_of(after, &Event::Succeeded)) {
    calls.Add(std::move(op), timeout, done);
    return done;
  }
  const Event submitted = Event::Make(what, nullptr, context_.records());
  if (issuing_.size() == issuing_.capacity()) {
    ForgetSubmitted();
    issuing_.reserve(2 * issuing_.size() + 1);  // so that each event is looked at once on average
  }
  auto submit = [client = context_.client(), op = std::move(op), timeout, done, ranges,
                 issued = submitted](const std::exception_ptr& failure) mutable {
    const std::exception_ptr error = failure == nullptr && ranges != nullptr ? ranges->error : failure;
    if (error == nullptr) {
      if (ranges != nullptr) ranges->begun = true;
      client.Submit(std::move(op), timeout, done, false);
    } else {
      FailKeys(*op, error);
      if (ranges != nullptr) NoteFailure(*ranges, error);
      client.Fail(error, done);
    }
    issued.Complete();  // last: it may submit the keys' next operations, in this thread
  };
  static_assert(kvstore::WhenAllDone::kFits<decltype(submit)>);
  kvstore::WhenAll(after, std::move(submit), context_.records());
  // What throws has thrown: nobody waits for a submission that never comes.
  issuing_.push_back(submitted);
  ++issues_;
  for (StoreKey* key : keys) {
    key->issued = submitted;
    key->issue = issues_;
  }
  return done;
}

std::shared_ptr<CallOnRanges> Issuer::NewCallOnRanges(OpKind kind, const StoreKey& key) {
  return std::make_shared<CallOnRanges>(
      CallOnRanges{.client = context_.client(),
                   .kind = kind,
                   .key = key.id,
                   .ended = Event::Make("the end of a call on a key", nullptr, context_.records()),
                   .error = nullptr});
}

// The operations before are submitted first, maybe on other threads, and those of later calls afterwards.
void Issuer::EndRanges(StoreKey& key, const std::shared_ptr<CallOnRanges>& ranges,
                       const std::exception_ptr& error) {
  const Event before = std::exchange(key.issued, ranges->ended);
  before.OnDone([ranges, error](const std::exception_ptr&) {
    NoteFailure(*ranges, error);
    ranges->ended.Complete();
  });
}

std::vector<Event> Issuer::Unsubmitted() {
  ForgetSubmitted();
  return issuing_;
}

void Issuer::ForgetSubmitted() {
  std::erase_if(issuing_, [](const Event& event) { return event.Done(); });
}

}  // namespace sluice::worker
