// OpenOperations: how operations end, one at a time, and what is known of those that have not.
//
// An operation ends once: Finish queues its callbacks and takes its parts out of their sequencers. The
// callbacks run later (CompletionQueue), so nothing here is called while it runs. An operation keeps its
// place in `operations_` until the loop over them is over (EraseFinished). ShardAnswers ends parts,
// KeyedOperations opens operations, JobSession and Client end many at once.
#include "worker/operations/open_operations.h"

#include <algorithm>
#include <map>

#include "base/strings.h"
#include "worker/operations/description.h"
#include "worker/operations/validation.h"
#include "worker/pull/deliver.h"

namespace sluice::worker {

OpenOperations::OpenOperations(std::shared_ptr<Allocator> records, DeclaredKeys& keys,
                               ConnectionTable& connections, CompletionQueue& completions,
                               WaitReporter& waits)
    : records_(std::move(records)),
      keys_(keys),
      connections_(connections),
      completions_(completions),
      waits_(waits),
      operations_(MemoryOf<Operation>(records_)) {}

// A callback may own its operation (NewPullUpdates), a cycle that would keep open operations alive.
OpenOperations::~OpenOperations() {
  for (auto& [number, op] : operations_) op->done = nullptr;
}

std::shared_ptr<Operation> OpenOperations::New(OpKind kind, uint32_t key) const {
  return NewOperation(records_, kind, key);
}

std::vector<std::shared_ptr<Operation>> OpenOperations::SplitPerKey(Operation& op) const {
  struct Ends {
    size_t left;
    Status status;
    Callback done;
  };
  const auto ends = std::make_shared<Ends>(Ends{op.keys.size(), Status::Ok(), std::move(op.done)});
  std::vector<std::shared_ptr<Operation>> each;
  size_t offset = 0;
  for (PerKeyOp& key_op : op.keys) {
    const auto& one = each.emplace_back(New(op.kind, key_op.key));
    one->only() = std::move(key_op);
    one->priority = op.priority;
    one->samples = op.samples;
    one->divisor = op.divisor;
    one->opened = op.opened;
    one->deadline = op.deadline;
    if (const DeclaredKey* key = keys_.Find(one->only().key); key != nullptr && op.HasPayload()) {
      const size_t bytes = PushedBytes(op, *key);
      one->source = op.source.Slice(offset, bytes);
      offset += bytes;
    }
    one->done = [ends](const Status& status) {
      if (!status.ok() && ends->status.ok()) ends->status = status;
      if (--ends->left == 0 && ends->done) ends->done(ends->status);
    };
  }
  return each;
}

void OpenOperations::Open(const std::shared_ptr<Operation>& op) {
  op->number = TakeOrder();
  operations_.emplace_hint(operations_.end(), op->number, op);
  earliest_deadline_ = std::min(earliest_deadline_, op->deadline);
  waits_.Watch(op->opened);
}

void OpenOperations::FinishPart(const PartOpPtr& part) {
  part->finished = true;
  connections_.ReleaseInFlight(*part);
  PartSequencer& sequencer = keys_.Find(part->ref.key)->sequencers[part->ref.part];
  sequencer.DropFinished();
  connections_.Release(sequencer);
  Operation& op = *part->op;
  if (op.finished) return;
  completions_.Add(op.keys[part->key_index].callback, Status::Ok());  // only keys of one part have a callback
  if (--op.parts_left > 0) return;
  if (!op.kept.empty()) DeliverAll(op);
  Finish(op, Status::Ok());
  operations_.erase(op.number);
}

void OpenOperations::DeliverAll(Operation& op) {
  DeclaredKey& key = *keys_.Find(op.only().key);
  if (!key.views) key.views.emplace(records_);
  CountCopied(DeliverKept(op, key.parts, key.entry.spec.dtype, *key.views));
}

void OpenOperations::Finish(Operation& op, const Status& status) {
  if (op.finished) return;
  op.finished = true;
  op.source = Frame();
  op.kept.clear();
  for (PerKeyOp& key_op : op.keys) {
    key_op.destination.leased = nullptr;  // a request that is still to be answered may hold the operation
    completions_.Add(key_op.callback, status);
  }
  completions_.Add(op.done, status);
  if (status.ok()) return;
  if (!op.waiting_for.empty()) NoteDelay(op);
  // The rest of a failed operation must not block later operations on the same parts.
  keys_.ForPartsOf(op, [&](PartOp& part) {
    part.finished = true;
    connections_.ReleaseInFlight(part);
  });
  for (const PerKeyOp& key_op : op.keys) {
    DeclaredKey* key = keys_.Find(key_op.key);
    if (key == nullptr) continue;
    for (PartSequencer& sequencer : key->SequencersIn(op.range)) {
      sequencer.DropFinished();
      connections_.Release(sequencer);
    }
  }
}

// Notes in the operations that `op` has held up what it waited for. Their time may be up soon after it, and a
// server that has just been asked is not whom they waited for.
void OpenOperations::NoteDelay(const Operation& op) {
  for (const PerKeyOp& key_op : op.keys) {
    DeclaredKey* key = keys_.Find(key_op.key);
    if (key == nullptr) continue;
    for (PartSequencer& sequencer : key->SequencersIn(op.range))
      for (const PartOpPtr& part : sequencer.ops())
        if (!part->released) part->op->delayed_by = op.waiting_for;
  }
}

void OpenOperations::EraseFinished() {
  std::erase_if(operations_, [](const auto& entry) { return entry.second->finished; });
}

// Makes the parts of a push_pull that are not acknowledged a plain push, since the round of the other
// workers needs it although this caller no longer waits for the value. From now on the caller may write to
// the source, so the new operation gets a copy.
void OpenOperations::DetachPush(const std::shared_ptr<Operation>& op) {
  std::shared_ptr<Operation> push;
  keys_.ForPartsOf(*op, [&](PartOp& part) {
    if (part.acked) return;
    if (push == nullptr) {
      push = NewOperation(records_, OpKind::kPush);
      for (const PerKeyOp& key_op : op->keys)
        push->keys.push_back({.key = key_op.key, .round = key_op.round, .destination = {}});
      push->range = op->range;
      push->priority = op->priority;
      push->samples = op->samples;
      push->divisor = op->divisor;
      push->exponent = op->exponent;
      push->compression = op->compression;
      push->opened = op->opened;
      push->source = Frame::Copy(op->source.bytes());
      Open(push);
    }
    part.op = push;
    ++push->parts_left;
  });
}

void OpenOperations::SplitUnfinished(std::shared_ptr<Operation> op) {
  if (op->finished || op->keys.size() == 1) return;
  op->finished = true;
  size_t offset = 0;
  for (const auto& one : SplitPerKey(*op)) {
    DeclaredKey& key = *keys_.Find(one->only().key);
    for (PartSequencer& sequencer : key.sequencers) {
      for (const PartOpPtr& part : sequencer.ops()) {
        if (part->op != op || part->finished) continue;
        part->op = one;
        part->key_index = 0;
        part->source.offset -= offset;
        ++one->parts_left;
      }
    }
    offset += one->source.size();
    if (one->parts_left > 0) {
      Open(one);
    } else {
      one->done(Status::Ok());
    }
  }
}

void OpenOperations::Expire(Time now) {
  if (now < earliest_deadline_) return;
  earliest_deadline_ = Time::max();
  // The failures are written before any of the operations ends, since they name what comes before it.
  std::vector<std::pair<std::shared_ptr<Operation>, Failure>> expired;
  for (const auto& [number, op] : operations_) {
    if (now >= op->deadline)
      expired.emplace_back(op, DeadlineFailure(*op, keys_, connections_));
    else
      earliest_deadline_ = std::min(earliest_deadline_, op->deadline);
  }
  for (const auto& [op, failure] : expired) {
    if (op->kind == OpKind::kPushPull) DetachPush(op);
    Finish(*op, failure);
  }
  if (!expired.empty()) EraseFinished();
}

void OpenOperations::FinishReads(const Failure& failure) {
  for (const auto& [number, op] : std::map(operations_)) {
    if (!op->WantsValue() || op->finished) continue;
    if (op->IsPush()) DetachPush(op);
    Finish(*op, failure);
  }
  EraseFinished();
}

void OpenOperations::FinishAll(const Failure& failure) {
  for (auto& [number, op] : operations_) Finish(*op, failure);
  operations_.clear();
}

const Operation* OpenOperations::FirstUnstored() const {
  const auto missing =
      std::ranges::find_if(operations_, [](const auto& entry) { return entry.second->HasPayload(); });
  return missing == operations_.end() ? nullptr : missing->second.get();
}

std::string OpenOperations::DescribeUnstored() const {
  const Operation& op = *FirstUnstored();
  return StrCat(Describe(op, keys_), ", is waiting for ", WaitingFor(op, keys_, connections_));
}

void OpenOperations::ReportTo(WaitReporter& waits, Time now) const {
  for (const auto& entry : operations_) {
    const Operation& op = *entry.second;
    const bool young = now < op.opened + membership::WaitReports::kFirst;
    const std::string whom = young ? "" : WaitingFor(op, keys_, connections_);
    if (whom == kEarlierOperations) {  // these are reported; look again when they may be done
      waits.Watch(now);
      continue;
    }
    waits.reports().Add(now, whom, op.opened, op.deadline, [&] { return Describe(op, keys_); });
  }
}

std::string OpenOperations::DumpState() const {
  constexpr size_t kShown = 100;
  std::string text;
  size_t shown = 0;
  for (const auto& [number, op] : operations_) {
    if (++shown > kShown) return text + "  ...\n";
    text += StrCat("  ", Describe(*op, keys_), ": ", op->parts_left, " parts left, waiting for ",
                   WaitingFor(*op, keys_, connections_), "\n");
  }
  return text;
}

}  // namespace sluice::worker
