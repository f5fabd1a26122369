#include "collective/nccl/group_launch.h"

#include <algorithm>
#include <utility>

#include "sluice/error.h"

namespace sluice::collective {
namespace {

// Each part throws an exception of its own.
Failure FailureOf(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return {known.code(), known.what()};
  } catch (const std::exception& other) {
    return {ErrorCode::kUnavailable, other.what()};
  }
}

}  // namespace

GroupLaunch::GroupLaunch(std::shared_ptr<Communicators> communicators, uint64_t number, Collective operation)
    : communicators_(std::move(communicators)),
      number_(number),
      state_(State{.operation = std::move(operation)}) {}

void GroupLaunch::AddPart(size_t rank, const Collective::Part& part) {
  const bool launches = state_.With([&](State& state) {
    state.operation.parts[rank] = part;
    return ++state.added == state.operation.parts.size() && !state.decided;
  });
  if (launches) {
    try {
      communicators_->Launch(number_, state_.With([](const State& state) { return state.operation; }));
      Decide(std::nullopt);
    } catch (...) {
      Decide(FailureOf(std::current_exception()));
    }
  }
  // Every other part is added, or cancels when its stream drops it. The last one connects and launches, which
  // may take the communicators' time each.
  const Duration limit = 3 * std::min(communicators_->most(), kNoLimit / 4);
  const auto decided = [](const State& state) { return state.decided; };
  const auto failure = state_.Await(limit, decided, [&](const State& state, bool in_time) {
    return in_time ? state.failure
                   : Fail(ErrorCode::kUnavailable, "the parts of other cards were not added within ",
                          ToSeconds(limit), " s");
  });
  if (failure) failure->Throw();
}

void GroupLaunch::Cancel(const std::exception_ptr& why) {
  Decide(FailureOf(why));
}

void GroupLaunch::Decide(std::optional<Failure> failure) {
  state_.Notify([&](State& state) {
    if (std::exchange(state.decided, true)) return;
    state.failure = std::move(failure);
  });
}

}  // namespace sluice::collective
