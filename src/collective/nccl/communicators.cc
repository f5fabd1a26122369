// Communicators owns NCCL's, one for each card, and a thread that watches launched operations. NCCL is
// called with mutex_ held: by the work that launches an operation, by the watching thread, by the thread that
// completes an operation (ErrorOf), and at the end (Close). Its calls do not block (NCCL's own threads work):
// one that is in progress is asked again until it is done. Invariant: once State::failure is set there are no
// communicators, and none are made again. The reducer calls the methods on the program's threads, and so does
// the work that it enqueues on the cards' streams, on theirs.
#include "collective/nccl/communicators.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/executor.h"
#include "base/strings.h"
#include "sluice/context.h"
#include "sluice/error.h"
#include "tensor/cuda/allocation_mutex.h"
#include "tensor/cuda/current_card.h"
#include "tensor/devices.h"

namespace sluice::collective {
namespace {

constexpr Duration kPass = 20ms;  // between two looks at operations that are under way
// How long a card may take behind one that has ended with an error. A bad label is an error as well, behind
// which all cards end; a card that is lost never sends what the others wait for.
constexpr Duration kMostBehindAFailure = 5s;
// Operations under way. Each takes a few of the 1,024 places of a stream's queue. Where that is full, CUDA
// keeps the caller inside of NCCL, with mutex_ held, and nobody can abort what keeps it full.
constexpr uint64_t kMostUnderWay = 64;

}  // namespace

bool Communicators::Pending::HasEnded() const {
  return watched && std::ranges::all_of(ends, [](const Event& end) { return end.Done(); });
}

Communicators::Communicators(std::vector<int> cards, std::shared_ptr<const NcclLibrary> nccl, Duration most)
    : cards_(std::move(cards)), nccl_(std::move(nccl)), most_(most), watch_([this] {
        SetThreadName("NCCL watch");
        RunWatch();
      }) {}

Communicators::~Communicators() {
  SLUICE_CHECK(!watch_.joinable()) << "the communicators of " << Names() << " were not closed";
}

void Communicators::Close() {
  state_.Notify([](State& state) { state.stops = true; });
  watch_.join();
  if (Devices::IsEnding()) return;  // NCCL's threads end with the process
  const MutexLock allocations(cuda::allocation_mutex);
  const MutexLock lock(mutex_);
  Destroy();
}

std::string Communicators::Names() const {
  std::vector<std::string> names;
  for (const int card : cards_) names.push_back(gpu(card).ToString());
  return StrJoin(names);
}

uint64_t Communicators::Add() {
  return state_.Notify([](State& state) {
    state.pending.emplace_back();
    return state.ended + state.pending.size() - 1;
  });
}

void Communicators::Watch(uint64_t number, Events ends) {
  state_.Notify([&](State& state) {
    Pending& pending = state.at(number);
    pending.ends = std::move(ends);
    pending.watched = true;
  });
}

// NCCL ends the kernels of an operation that has failed, which may be seen before the watch looks at it.
std::exception_ptr Communicators::ErrorOf(uint64_t number) {
  const MutexLock lock(mutex_);
  if (const std::string why = AsyncError(); !why.empty()) Fail(why);
  return state_.With([number](const State& state) {
    const bool failed = state.failure && number >= state.failed_from;
    return failed ? std::make_exception_ptr(Error(state.failure->code, state.failure->message)) : nullptr;
  });
}

// Nothing that may wait for a card is called on another thread before the operation is on all of them.
void Communicators::Launch(uint64_t number, std::span<const Collective> operations) {
  AwaitRoom(number);
  const MutexLock allocations(cuda::allocation_mutex);
  const MutexLock lock(mutex_);
  if (const auto failure = state_.With([](const State& state) { return state.failure; })) failure->Throw();
  const cuda::CurrentCard current(cards_.front());
  if (comms_.empty()) Connect();
  Enqueue(operations);
  AwaitProgress("launching an operation");
  state_.Notify([&](State& state) { state.at(number).launched = clock_.Now(); });
}

void Communicators::AwaitRoom(uint64_t number) {
  const auto has_room = [number](const State& state) {
    return state.failure || number - state.ended < kMostUnderWay;
  };
  if (state_.Await(most_, has_room, [](const State&, bool in_time) { return in_time; })) return;
  const MutexLock lock(mutex_);
  FailUnlessFailed(LateReason());
}

void Communicators::Connect() {
  ncclUniqueId id;
  Require(nccl_->GetUniqueId(&id), "ncclGetUniqueId");
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  comms_.assign(cards_.size(), nullptr);
  Require(ForEachRank([&](size_t rank) SLUICE_REQUIRES(mutex_) {
            const cuda::CurrentCard current(cards_[rank]);
            return nccl_->CommInitRankConfig(&comms_[rank], static_cast<int>(cards_.size()), id,
                                             static_cast<int>(rank), &config);
          }),
          "ncclCommInitRankConfig");
  AwaitProgress("connecting the cards");
}

void Communicators::Enqueue(std::span<const Collective> operations) {
  const auto enqueue = [&](const Collective& one, size_t rank) SLUICE_REQUIRES(mutex_) {
    const Collective::Part& part = one.parts[rank];
    return one.kind == Collective::Kind::kReduce
               ? nccl_->Reduce(part.send, part.receive, one.count, one.type, ncclSum, one.root, comms_[rank],
                               part.stream)
               : nccl_->Broadcast(part.send, part.receive, one.count, one.type, one.root, comms_[rank],
                                  part.stream);
  };
  Require(ForEachRank([&](size_t rank) SLUICE_REQUIRES(mutex_) {
            ncclResult_t result = ncclSuccess;
            for (const Collective& one : operations) {
              result = enqueue(one, rank);
              if (result != ncclSuccess && result != ncclInProgress) break;
            }
            return result;
          }),
          operations.front().kind == Collective::Kind::kReduce ? "ncclReduce" : "ncclBroadcast");
}

// A group that has begun must end, whatever its calls return or throw.
template <typename Call>
ncclResult_t Communicators::ForEachRank(Call&& call) {
  ncclResult_t first = nccl_->GroupStart();
  const auto note = [&first](ncclResult_t result) {
    if (first == ncclSuccess && result != ncclInProgress) first = result;
  };
  std::string refused;
  try {
    for (size_t rank = 0; rank < cards_.size(); ++rank) note(call(rank));
  } catch (const Error& error) {  // a card does not become the current one
    refused = error.what();
  }
  note(nccl_->GroupEnd());
  if (!refused.empty()) Fail(refused).Throw();
  return first;
}

void Communicators::AwaitProgress(std::string_view what) {
  const Time deadline = DeadlineOf(clock_.Now(), most_);
  for (ncclComm_t const comm : comms_) {
    ncclResult_t result = ncclInProgress;
    while (true) {
      Require(nccl_->CommGetAsyncError(comm, &result), "ncclCommGetAsyncError");
      if (result != ncclInProgress) break;
      if (clock_.Now() > deadline)
        Fail(StrCat(what, " has not ended within ", ToSeconds(most_), " s")).Throw();
      std::this_thread::yield();  // NCCL names nothing to wait for
    }
    Require(result, what);
  }
}

void Communicators::Require(ncclResult_t result, std::string_view call) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const std::string more = comms_.empty() ? "" : nccl_->GetLastError(comms_.front());
  Fail(StrCat(call, ": ", nccl_->GetErrorString(result), more.empty() ? "" : StrCat(" (", more, ")")))
      .Throw();
}

Failure Communicators::Fail(const std::string& why) {
  Failure failure = sluice::Fail(ErrorCode::kUnavailable, "NCCL failed on ", Names(), ": ", why,
                                 "; these cards exchange nothing more in this process: start it again, with "
                                 "NCCL_DEBUG=INFO to see more, "
                                 "or use the store type 'device', which does without NCCL");
  state_.Notify([&](State& state) {
    state.failure = failure;
    state.failed_from = state.ended;
  });
  const std::vector<ncclComm_t> comms = std::exchange(comms_, {});
  if (comms.empty()) return failure;
  const cuda::CurrentCard current(cards_.front(), std::nothrow);  // NCCL puts the thread's card back
  ForEachRank(
      [&](size_t rank) { return comms[rank] == nullptr ? ncclSuccess : nccl_->CommAbort(comms[rank]); });
  return failure;
}

void Communicators::FailUnlessFailed(const std::string& why) {
  if (state_.With([](const State& state) { return !state.failure; })) Fail(why);
}

std::string Communicators::LateReason() const {
  return StrCat("an operation has not ended within ", ToSeconds(most_), " s");
}

// Nothing is under way any more.
void Communicators::Destroy() {
  if (comms_.empty()) return;
  const cuda::CurrentCard current(cards_.front(), std::nothrow);
  try {
    Require(
        ForEachRank([&](size_t rank) SLUICE_REQUIRES(mutex_) { return nccl_->CommFinalize(comms_[rank]); }),
        "ncclCommFinalize");
    AwaitProgress("ending");
  } catch (const Error&) {  // Fail has aborted them
    return;
  }
  for (ncclComm_t const comm : std::exchange(comms_, {})) static_cast<void>(nccl_->CommDestroy(comm));
}

void Communicators::RunWatch() {
  while (true) {
    const auto has_work = [](const State& state) { return !state.pending.empty() || state.stops; };
    const bool done = state_.Await(
        kNoLimit, has_work, [](const State& state, bool) { return state.pending.empty() && state.stops; });
    if (done) return;
    if (const std::string why = CheckFirst(); !why.empty()) {
      const MutexLock lock(mutex_);
      FailUnlessFailed(why);
    }
    const auto first_has_ended = [](const State& state) {
      return state.pending.empty() || state.pending.front().HasEnded();
    };
    state_.Await(kPass, first_has_ended, [](const State&, bool) {});
  }
}

std::string Communicators::AsyncError() {
  for (ncclComm_t const comm : comms_) {
    ncclResult_t result = ncclSuccess;
    if (nccl_->CommGetAsyncError(comm, &result) == ncclSuccess && result != ncclSuccess &&
        result != ncclInProgress)
      return nccl_->GetErrorString(result);
  }
  return "";
}

std::string Communicators::CheckFirst() {
  std::string lost_or_late = state_.Notify([&](State& state) -> std::string {
    while (!state.pending.empty() && state.pending.front().HasEnded()) {
      state.pending.pop_front();
      ++state.ended;
      state.first_since = clock_.Now();
    }
    if (state.pending.empty() || !state.pending.front().launched || !state.pending.front().watched) return "";
    Pending& first = state.pending.front();
    const Time now = clock_.Now();
    for (size_t rank = 0; rank < first.ends.size(); ++rank) {
      if (first.ends[rank].error() == nullptr) continue;
      if (!first.one_failed) first.one_failed = now;
      if (now - *first.one_failed > kMostBehindAFailure)
        return StrCat(gpu(cards_[rank]), " has failed while the others wait for it");
    }
    const bool late = now - std::max(*first.launched, state.first_since) > most_;
    return late ? LateReason() : "";
  });
  if (!lost_or_late.empty()) return lost_or_late;
  const MutexLock lock(mutex_);
  return AsyncError();
}

}  // namespace sluice::collective
