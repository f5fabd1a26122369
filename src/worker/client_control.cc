// Client: requests that are not operations on keys. Most go to the scheduler (declaring keys, the optimiser,
// barriers, leaving), some to shards (counters, lists of rows).
//
// The client's loop calls everything here. ControlRequests repeats each request until it is answered or its
// deadline has passed. Leaving without an error has three steps: Flush, PingServers, SendLeave.
#include <algorithm>

#include "base/strings.h"
#include "worker/client.h"

namespace sluice::worker {
namespace {

constexpr Duration kLeaveRepeat = 200ms;

// Divides the keys of a call among messages: returns for each message the index after its last key.
// A message and its answer, which has the slices, stay far below what a peer accepts. There is at
// least one message, even without keys.
std::vector<size_t> EndsOfDeclarations(const std::vector<InitArgs>& keys, size_t shards) {
  constexpr size_t kMostKeys = 16384, kMostBytes = size_t{4} << 20;
  constexpr size_t kBytesOfEntry = 48, kBytesOfSlice = 16, kLeastSlice = 1024;  // elements
  std::vector<size_t> ends;
  size_t first = 0, bytes = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    const wire::KeySpec& spec = keys[i].spec;
    const auto* name = std::get_if<std::string>(&spec.name);
    const size_t slices =
        spec.rows ? shards : std::min(shards, 1 + static_cast<size_t>(spec.shape.size()) / kLeastSlice);
    const size_t more = kBytesOfEntry + (name == nullptr ? 0 : name->size()) + 10 * spec.shape.ndim() +
                        kBytesOfSlice * slices;
    if (i > first && (i - first == kMostKeys || bytes + more > kMostBytes)) {
      ends.push_back(i);
      first = i;
      bytes = 0;
    }
    bytes += more;
  }
  ends.push_back(keys.size());
  return ends;
}

std::string BarrierText(const wire::Barrier& barrier) {
  return StrCat("barrier '", barrier.id, "'");
}

}  // namespace

void Client::Ask(Time now, membership::ControlRequests::Request request, NetworkRef network) {
  if (failure_) {
    completions_.push_back([done = std::move(request.done), failure = *failure_](Time at, NetworkRef net) {
      done(at, net, failure);
    });
    return RunCompletions(now, network);
  }
  controls_.Ask(now, next_id_++, std::move(request), membership_, network);
  next_report_ = std::min(next_report_, now + membership::WaitReports::kFirst);
}

void Client::Ask(Time now, transport::PeerId whom, wire::Body body, std::string what, Time deadline,
                 AnswerDone done, NetworkRef network) {
  Ask(now, {whom, std::move(body), std::move(what), deadline, std::move(done)}, network);
}

// A call of Init whose keys are being declared. Keys that do not fit one message are sent to the scheduler
// in several first, and it takes all of them or none; then their entries are requested, as many at a time.
struct Client::Declaration {
  wire::SyncMode mode;
  std::vector<InitArgs> keys;
  Time deadline;
  InitDone done;
  std::vector<size_t> ends;  // by message: the index after its last key
  uint64_t call = 0;         // the same for all messages of the call (wire::DeclareKeys::part)
  size_t message = 0;        // number of the next message
  std::vector<wire::KeyEntry> entries;

  size_t first() const { return message == 0 ? 0 : ends[message - 1]; }
  wire::DeclareKeys Next() const {
    wire::DeclareKeys declare{mode, {}};
    for (size_t i = first(); i < ends[message]; ++i) declare.keys.push_back(keys[i].spec);
    return declare;
  }
};

void Client::Init(Time now, wire::SyncMode mode, std::vector<InitArgs> keys, Time deadline, InitDone done,
                  NetworkRef network) {
  std::vector<size_t> ends = EndsOfDeclarations(keys, shards_.size());
  auto declaration = std::make_shared<Declaration>(
      Declaration{mode, std::move(keys), deadline, std::move(done), std::move(ends), next_id_, 0, {}});
  if (declaration->ends.size() > 1) return DeclareNextPart(now, std::move(declaration), network);
  Declare(now, std::move(declaration), network);
}

void Client::DeclareNextPart(Time now, std::shared_ptr<Declaration> declaration, NetworkRef network) {
  wire::DeclareKeys part = declaration->Next();
  part.part = {declaration->call, declaration->first(), declaration->keys.size()};
  Ask(
      now, membership_.scheduler(), std::move(part), "declaring keys", declaration->deadline,
      [this, declaration](Time at, NetworkRef net, const Result<wire::Body>& answer) {
        if (!answer) return declaration->done(answer.failure());
        if (++declaration->message < declaration->ends.size()) return DeclareNextPart(at, declaration, net);
        declaration->message = 0;
        Declare(at, declaration, net);
      },
      network);
}

void Client::Declare(Time now, std::shared_ptr<Declaration> declaration, NetworkRef network) {
  Ask(
      now, membership_.scheduler(), declaration->Next(), "declaring keys", declaration->deadline,
      [this, declaration](Time at, NetworkRef net, const Result<wire::Body>& answer) {
        if (!answer) return declaration->done(answer.failure());
        Declaration& d = *declaration;
        const size_t asked = d.ends[d.message] - d.first();
        const auto* table = std::get_if<wire::KeyTable>(&answer.value());
        if (table == nullptr || table->entries.size() != asked) {
          return d.done(Fail(ErrorCode::kDataLoss, "the scheduler answered a declaration of ", asked,
                             " keys with ", wire::BodyName(answer.value())));
        }
        d.entries.insert(d.entries.end(), table->entries.begin(), table->entries.end());
        if (++d.message < d.ends.size()) return Declare(at, declaration, net);
        OnDeclared(at, d.entries, std::move(d.keys), d.deadline, std::move(d.done), net);
      },
      network);
}

void Client::AddKey(const wire::KeyEntry& entry) {
  if (Find(entry.id) != nullptr) return;
  if (keys_.size() <= entry.id) keys_.resize(entry.id + 1);
  auto key = std::make_unique<KeyState>();
  key->entry = entry;
  key->name = wire::ToString(entry.spec);
  key->parts = plan::PartsOf(entry);
  key->sequencers.resize(key->parts.size());
  if (!entry.spec.rows)
    weight_bytes_ += static_cast<uint64_t>(entry.spec.shape.size()) * SizeOf(entry.spec.dtype);
  keys_[entry.id] = std::move(key);
}

void Client::OnDeclared(Time now, const std::vector<wire::KeyEntry>& entries, std::vector<InitArgs> keys,
                        Time deadline, InitDone done, NetworkRef network) {
  struct Pending {
    size_t left;
    Status status;
    std::vector<uint32_t> ids;
    InitDone done;
  };
  auto pending = std::make_shared<Pending>(Pending{entries.size(), Status::Ok(), {}, std::move(done)});
  for (const wire::KeyEntry& entry : entries) {
    pending->ids.push_back(entry.id);
    const std::string why = plan::InvalidReason(entry, static_cast<uint32_t>(shards_.size()));
    if (!why.empty())
      return pending->done(Fail(ErrorCode::kDataLoss, "the scheduler sent an invalid key table: ", why));
  }
  if (entries.empty()) return pending->done(pending->ids);
  for (size_t i = 0; i < entries.size(); ++i) {
    const wire::KeyEntry& entry = entries[i];
    AddKey(entry);
    auto version = NewOperation(OpKind::kVersion, entry.id);
    version->name = "Init";
    version->deadline = deadline;
    if (membership_.rank() != 0 && !entry.spec.rows) version->waiting_for = "worker 0 to initialise the key";
    version->done = [this, pending, id = entry.id, op = version](const Status& status) {
      if (!status.ok()) pending->status = status;
      // A restarted worker continues with the round that the servers expect.
      if (status.ok() && op->lowest_version != UINT64_MAX)
        keys_[id]->pushed = std::max(keys_[id]->pushed, op->lowest_version);
      if (--pending->left > 0) return;
      pending->done(pending->status.ok() ? Result<std::vector<uint32_t>>(pending->ids)
                                         : Result<std::vector<uint32_t>>(pending->status.failure()));
    };
    if (membership_.rank() == 0 && !entry.spec.rows) {
      auto init = NewOperation(OpKind::kInit, entry.id);
      init->source = std::move(keys[i].value);
      init->done = [version_done = version](const Status& status) {
        if (!status.ok() && version_done->done) std::exchange(version_done->done, nullptr)(status);
      };
      Start(now, std::move(init), network);
    }
    Start(now, std::move(version), network);
  }
}

void Client::SetOptimizer(Time now, const OptimizerConfig& config, uint32_t store, Time deadline,
                          worker::Done done, NetworkRef network) {
  wire::SetOptimizer set{config, {}, store};
  for (const auto& key : keys_)
    if (key != nullptr && key->entry.spec.store == store) set.first_rounds[key->entry.id] = key->pushed + 1;
  Ask(
      now, membership_.scheduler(), std::move(set), "setting the optimiser", deadline,
      [done = std::move(done)](Time, NetworkRef, const Result<wire::Body>& answer) {
        done(answer ? Status::Ok() : Status(answer.failure()));
      },
      network);
}

void Client::AwaitOptimizer(Time now, uint32_t store, Time deadline, worker::Done done, NetworkRef network) {
  Ask(
      now, membership_.scheduler(), wire::AwaitOptimizer{store}, "setting the optimiser", deadline,
      [done = std::move(done)](Time, NetworkRef, const Result<wire::Body>& answer) {
        done(answer ? Status::Ok() : Status(answer.failure()));
      },
      network);
}

void Client::Barrier(Time now, wire::Barrier barrier, Time deadline, worker::Done done, NetworkRef network) {
  Agree(
      now, std::move(barrier), deadline,
      [done = std::move(done)](const Result<std::string>& text) {
        done(text ? Status::Ok() : Status(text.failure()));
      },
      network);
}

void Client::Agree(Time now, wire::Barrier barrier, Time deadline, TextDone done, NetworkRef network) {
  if (barrier.group == wire::Barrier::Group::kAll && barrier.id.empty())
    barrier.id = membership::IdOfBarrierOfAll(++barriers_of_all_);
  const std::string what = BarrierText(barrier);
  Ask(
      now, membership_.scheduler(), std::move(barrier), what, deadline,
      [done = std::move(done)](Time, NetworkRef, const Result<wire::Body>& answer) {
        if (!answer) return done(answer.failure());
        const auto* released = std::get_if<wire::BarrierReleased>(&answer.value());
        done(released != nullptr ? released->text : std::string());
      },
      network);
}

void Client::Flush(Time now, Time deadline, worker::Done done, NetworkRef network) {
  if (failure_) return done(*failure_);
  for (const auto& [number, op] : std::map(operations_)) {
    if (!op->WantsValue() || op->finished) continue;
    if (op->IsPush()) DetachPush(op);
    FinishOperation(*op, Fail(ErrorCode::kCancelled, "this worker has left the job"));
  }
  std::erase_if(operations_, [](const auto& entry) { return entry.second->finished; });
  flushes_.push_back({deadline, std::move(done)});
  FlushShards(now, network);
  CheckFlushed(now);
  RunCompletions(now, network);
}

void Client::CheckFlushed(Time now) {
  if (flushes_.empty()) return;
  const auto missing =
      std::ranges::find_if(operations_, [](const auto& entry) { return entry.second->HasPayload(); });
  for (FlushCall& call : flushes_) {
    if (missing != operations_.end() && now < call.deadline) continue;
    Status status;
    if (missing != operations_.end()) {
      const Operation& op = *missing->second;
      status = Fail(ErrorCode::kDeadlineExceeded,
                    "the servers do not have all that this worker pushed: ", Describe(op),
                    ", is waiting for ", WaitingFor(op));
    }
    completions_.push_back(
        [done = std::exchange(call.done, nullptr), status](Time, NetworkRef) { done(status); });
  }
  std::erase_if(flushes_, [](const FlushCall& call) { return call.done == nullptr; });
}

void Client::Leave(Time now, wire::Leave leave, Time deadline, worker::Done done, NetworkRef network) {
  if (failure_ || !membership_.IsRegistered()) {
    // After a failure the other nodes have been notified already, so one leave message is sent, without
    // waiting for the answer. A worker that is not registered just ends.
    if (failure_) network.Send(membership_.scheduler(), Envelope(std::move(leave), next_id_++));
    done_ = true;
    return done(failure_ ? Status(*failure_) : Status::Ok());
  }
  if (leave.outcome != wire::Leave::Outcome::kFinished)
    return SendLeave(now, std::move(leave), deadline, std::move(done), network);
  const auto seen = [this, leave = std::move(leave), deadline, done = std::move(done)](
                        Time at, NetworkRef net, const Status& status) {
    if (status.ok()) return SendLeave(at, leave, deadline, done, net);
    done(status);
  };
  PingServers(now, deadline, seen, network);
}

void Client::PingServers(Time now, Time deadline, std::function<void(Time, NetworkRef, const Status&)> done,
                         NetworkRef network) {
  if (shards_.empty()) return done(now, network, Status::Ok());
  struct Seen {
    size_t left;
    Status status;
  };
  const auto seen = std::make_shared<Seen>(Seen{shards_.size(), Status::Ok()});
  for (const auto& shard : shards_) {
    const auto answered = [seen, done](Time at, NetworkRef net, const Result<wire::Body>& answer) {
      if (!answer && seen->status.ok()) seen->status = answer.failure();
      if (--seen->left == 0) done(at, net, seen->status);
    };
    Ask(now,
        {shard->peer, wire::GetStats{}, "leaving the job", deadline, answered,
         StrCat("server ", shard->server, " to answer"), kLeaveRepeat},
        network);
  }
}

void Client::SendLeave(Time now, wire::Leave leave, Time deadline, worker::Done done, NetworkRef network) {
  const bool tries_once = leave.outcome != wire::Leave::Outcome::kFinished;
  auto on_answer = [this, tries_once, done = std::move(done)](Time, NetworkRef,
                                                              const Result<wire::Body>& answer) {
    // A stop because all workers have finished implies the acknowledgement, which was lost.
    const bool ended = !answer && membership_.state() == membership::State::kStopped &&
                       membership_.stop()->reason == wire::Stop::Reason::kFinished;
    const bool left = answer || ended;
    if (!left && !tries_once) return done(answer.failure());
    membership_.Leave();
    done_ = true;
    // A stream that waits for an open operation would delay the end of the process.
    if (!failure_) FailAll(Fail(ErrorCode::kCancelled, "this worker has left the job"));
    done(left ? Status::Ok() : Status(answer.failure()));
  };
  Ask(now,
      {.to = membership_.scheduler(),
       .body = std::move(leave),
       .what = "leaving the job",
       .deadline = deadline,
       .done = std::move(on_answer),
       .repeat = kLeaveRepeat},
      network);
}

void Client::GetSchedulerStats(Time now, Time deadline, AnswerDone done, NetworkRef network) {
  Ask(now, membership_.scheduler(), wire::GetStats{}, "asking the scheduler for statistics", deadline,
      std::move(done), network);
}

void Client::GetRowIds(Time now, wire::PartRef part, uint64_t first, Time deadline, AnswerDone done,
                       NetworkRef network) {
  const KeyState& key = *Find(part.key);
  const uint32_t shard = key.parts.at(part.part).shard;
  Ask(now, shards_.at(shard)->peer, wire::GetRowIds{part, first},
      StrCat("asking shard ", shard, " for the rows of key ", key.name), deadline, std::move(done), network);
}

void Client::GetShardStats(Time now, uint32_t shard, Time deadline, AnswerDone done, NetworkRef network) {
  Ask(now, shards_.at(shard)->peer, wire::GetStats{}, StrCat("asking shard ", shard, " for statistics"),
      deadline, std::move(done), network);
}

}  // namespace sluice::worker
