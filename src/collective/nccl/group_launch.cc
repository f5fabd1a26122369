#include "collective/nccl/group_launch.h"

#include <algorithm>
#include <utility>

#include "sluice/error.h"

namespace sluice::collective {

GroupLaunch::GroupLaunch(std::shared_ptr<Communicators> communicators, uint64_t number,
                         std::vector<Collective> operations)
    : communicators_(std::move(communicators)),
      number_(number),
      state_(State{.operations = std::move(operations)}) {}

void GroupLaunch::AddParts(size_t rank, std::span<const Collective::Part> parts) {
  const bool launches = state_.With([&](State& state) {
    for (size_t i = 0; i < parts.size(); ++i) state.operations[i].parts[rank] = parts[i];
    return ++state.added == state.operations.front().parts.size() && !state.decided;
  });
  if (launches) {
    try {
      communicators_->Launch(number_, state_.With([](const State& state) { return state.operations; }));
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
