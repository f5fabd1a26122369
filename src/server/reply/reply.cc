// Shard's reply step: answers requests, now or when their version is available, and sends status messages
// (StillWaiting) for those that wait. Runs on the shard's loop.
//
// A waiter is in exactly one part's list. It is ready or not (Ready); one that is ready while its peer
// has no room becomes deferred, and is answered from Flush once the peer has room (OnRoom). Replies
// collect in replies_, and Flush sends them after the waiting updates have run, so that no reply carries
// a weight that is not written yet.
#include <algorithm>

#include "base/strings.h"
#include "kvstore/rows/row_frame.h"
#include "server/shard.h"

namespace sluice::server {
namespace {

// A waiter gets its first status message after kFirstStatus, which is longer than a training round usually
// takes; the pauses after that double, up to kLongestPause.
constexpr Duration kFirstStatus = 100ms;
constexpr Duration kLongestPause = 2s;
// Bytes of values that are collected before they are sent and the network is
// asked which peers still have room.
constexpr size_t kAtOnce = size_t{4} << 20;

}  // namespace

bool Shard::Ready(const ShardKey& key, const ShardPart& part, const PendingRequest& waiter) const {
  if (waiter.awaits_set)
    return key.async() ? part.sets >= waiter.min_version
                       : part.version > waiter.min_version || part.set_version == waiter.min_version;
  if (!key.async()) return part.initialised && part.version >= waiter.min_version;
  return key.initialised_parts == key.parts.size() && !WaitsForPinned(key, part, waiter) &&
         key.VersionFor(part, waiter.rank) >= waiter.min_version;
}

// Whether answers that show an earlier state of the key are still to be sent to the waiter's worker.
bool Shard::WaitsForPinned(const ShardKey& key, const ShardPart& part, const PendingRequest& waiter) {
  if (key.pinned.empty() || waiter.slot > 0 || !waiter.want_data) return false;
  const auto it = key.pinned.find(waiter.rank);
  const auto state = it == key.pinned.end() ? nullptr : it->second.lock();
  return state != nullptr && *state != part.version;
}

bool Shard::HasRoom(const PendingRequest& waiter) const {
  return !waiter.want_data || (replies_.bytes() < kAtOnce && !without_room_.contains(waiter.peer));
}

bool Shard::AnswerOrWait(Time now, ShardKey& key, ShardPart& part, PendingRequest waiter) {
  bool deferred = false;  // a waiter for the same value is deferred
  for (PendingRequest& known : part.pending) {
    if (!known.deferred || !known.AsksFor(waiter)) continue;
    deferred = true;
    if (known.request_id != waiter.request_id) continue;
    known.peer = waiter.peer;  // a repeat of a request whose answer is deferred
    deferred_[waiter.peer].insert(part.ref);
    return false;
  }
  if (Ready(key, part, waiter)) {
    if (!deferred && HasRoom(waiter)) {
      Answer(key, part, waiter);
      return true;
    }
    DeferAnswer(key, part, waiter);
  }
  // The ids may be a small slice of a large message, which they would keep in memory.
  if (waiter.ids.data() != nullptr) waiter.ids = Frame::Copy(waiter.ids.bytes());
  KeepWaiting(now, part, std::move(waiter));
  return false;
}

void Shard::DeferAnswer(ShardKey& key, ShardPart& part, PendingRequest& waiter) {
  ++counters_[Counter::kAnswersDeferred];
  waiter.deferred = true;
  deferred_[waiter.peer].insert(part.ref);
  if (!key.async() || waiter.slot > 0 || key.parts.size() == 1 || part.rows != nullptr) return;
  std::weak_ptr<const uint64_t>& of_rank = key.pinned[waiter.rank];
  auto state = of_rank.lock();
  if (state == nullptr) of_rank = state = std::make_shared<const uint64_t>(part.version);
  waiter.pinned = {part.weight->Share(waiter.as), key.VersionFor(part, waiter.rank), std::move(state)};
}

bool Shard::AnswerSomeDeferred() {
  for (auto& [peer, parts] : deferred_) {
    if (without_room_.contains(peer)) continue;
    while (!parts.empty() && replies_.bytes() < kAtOnce)
      AnswerDeferred(peer, parts.extract(parts.begin()).value());
  }
  std::erase_if(deferred_, [](const auto& of_peer) { return of_peer.second.empty(); });
  return !replies_.empty();
}

void Shard::AnswerDeferred(transport::PeerId peer, const wire::PartRef& ref) {
  ShardKey& key = *keys_.Find(ref.key);
  ShardPart& part = *key.Find(ref.part);
  std::erase_if(part.pending, [&](const PendingRequest& waiter) {
    if (!waiter.deferred || waiter.peer != peer) return false;
    if (waiter.slot <= part.num_states()) Answer(key, part, waiter);
    return true;
  });
  if (std::erase_if(key.pinned, [](const auto& of_rank) { return of_rank.second.expired(); }) > 0)
    for (ShardPart& each : key.parts) AnswerWaiters(key, each);
}

void Shard::OnRoom(Time, transport::PeerId peer, transport::Network& network) {
  without_room_.erase(peer);
  Flush(network);
}

void Shard::Answer(const ShardKey& key, ShardPart& part, const PendingRequest& waiter) {
  wire::ValuePart value{part.ref, waiter.slot, part.version};
  if (waiter.slot == 0) value.version = key.VersionFor(part, waiter.rank);
  if (waiter.pinned) value.version = waiter.pinned->version;
  // A frame of the weight itself is read when it is sent, and Flush runs the queue before. States and
  // rounded weights are read here, so the waiting updates must run first.
  if (waiter.slot > 0 || waiter.as != Compression::kNone) update_queue_.Run();
  Frame frame;
  if (waiter.slot > 0) {
    value.version = static_cast<uint64_t>(part.num_updates);
    // States change in place, so an answer carries a copy. They are pulled only when they are saved.
    if (waiter.want_data && part.rows == nullptr) {
      frame = Frame::Copy(part.states.arrays[waiter.slot - 1]->bytes());
      counters_[Counter::kBytesCopied] += frame.size();
    }
  } else if (waiter.want_data && part.rows == nullptr) {
    frame = waiter.pinned ? waiter.pinned->value : part.weight->Share(waiter.as);
  }
  if (waiter.want_data && part.rows != nullptr) {
    frame = ReadRows(part, waiter);
    counters_[Counter::kBytesCopied] += frame.size();
  }
  counters_[Counter::kBytesOut] += frame.size();
  const Compression as = waiter.slot == 0 ? waiter.as : Compression::kNone;
  replies_.Add(waiter.peer, waiter.request_id, value, waiter.want_data, std::move(frame), as, waiter.share);
}

Frame Shard::ReadRows(const ShardPart& part, const PendingRequest& waiter) const {
  const kvstore::RowTable& table = *part.rows;
  const size_t rows = waiter.ids.size() / sizeof(int64_t);
  const size_t each = waiter.slot == 0 ? table.row_bytes() : table.state_bytes();
  const auto read = std::make_shared<Buffer>(rows * each, options_.memory);
  std::byte* to = read->data();
  for (size_t i = 0; i < rows; ++i, to += each) {
    const int64_t id = kvstore::IdAt(waiter.ids.bytes(), i);
    waiter.slot == 0 ? table.Read(id, to) : table.ReadState(waiter.slot - 1, id, to);
  }
  return Frame::Of(read);
}

void Shard::AnswerWaiters(ShardKey& key, ShardPart& part) {
  if (part.pending.empty()) return;
  auto waiting = std::partition(part.pending.begin(), part.pending.end(), [&](PendingRequest& waiter) {
    return waiter.deferred || !Ready(key, part, waiter);
  });
  for (auto it = waiting; it != part.pending.end(); ++it) {
    if (!HasRoom(*it)) {
      DeferAnswer(key, part, *it);
      std::swap(*it, *waiting++);
    } else if (!it->want_data || it->slot <= part.num_states()) {
      Answer(key, part, *it);
    }
  }
  part.pending.erase(waiting, part.pending.end());
}

void Shard::KeepWaiting(Time now, ShardPart& part, PendingRequest waiter) {
  waiter.next_status_at = now + kFirstStatus;
  waiter.pause = kFirstStatus;
  next_status_at_ = std::min(next_status_at_, waiter.next_status_at);
  part.AddPending(waiter);
}

void Shard::OnTimer(Time now, transport::Network& network) {
  ReturnLeases(now);
  if (now < next_status_at_) return;
  next_status_at_ = Time::max();
  for (ShardKey& key : keys_.all()) SendStatusUpdates(now, key, key.parts, network);
  // A pass over all keys is made at most every kFirstStatus, and serves many waiters.
  if (next_status_at_ < Time::max()) next_status_at_ = std::max(next_status_at_, now + kFirstStatus);
}

void Shard::SendStatusUpdates(Time now, const ShardKey& key, std::vector<ShardPart>& parts,
                              transport::Network& network) {
  // The requests that have had their status message: one message is for all parts of the key.
  std::set<std::pair<transport::PeerId, uint64_t>> told;
  for (ShardPart& part : parts) {
    for (PendingRequest& waiter : part.pending) {
      if (now >= waiter.next_status_at) {
        waiter.pause = std::min(2 * waiter.pause, kLongestPause);
        waiter.next_status_at = now + waiter.pause;
        const bool for_itself = waiter.rank == 0 && !part.initialised;  // its own first values are in flight
        const bool for_others = !waiter.deferred && !for_itself && !WaitsForPinned(key, part, waiter);
        if (for_others && told.emplace(waiter.peer, waiter.request_id).second) {
          ++counters_[Counter::kStatusUpdates];
          Send(waiter.peer, waiter.request_id,
               wire::StillWaiting{wire::ToString(key.entry.spec), MissingText(key, part, waiter)}, {},
               network);
        }
      }
      next_status_at_ = std::min(next_status_at_, waiter.next_status_at);
    }
  }
}

// Why the waiter can never be answered; empty while it can. A worker that has set the weight before a round
// (sync modes) waits in vain once worker 0 has pushed that round without setting it: its own value would be
// lost silently. The round itself may still close, since its result does not depend on the set.
std::string Shard::UnsatisfiableReason(const ShardKey& key, const ShardPart& part,
                                       const PendingRequest& waiter) const {
  const auto name = [&] { return wire::ToString(key.entry.spec); };
  if (worker_0_left_ && !part.initialised)
    return StrCat("worker 0 has left the job and has not initialised key ", name(), ": nobody else does");
  if (!waiter.awaits_set) return {};
  const bool pushed = !key.async() && !part.rounds.empty() && part.rounds.front().Has(0);
  if (!worker_0_left_ && !(pushed && waiter.min_version == part.version)) return {};
  const std::string set = StrCat("worker ", waiter.rank, " has set the weight of key ", name());
  if (worker_0_left_) return StrCat(set, ", and worker 0, whose weights count, has left the job without");
  return StrCat(set, " before round ", part.version + 1,
                ", and worker 0, whose weights count, has not: set it on worker 0 or on all workers, between "
                "the same two steps");
}

void Shard::FailUnsatisfiable(ShardKey& key, transport::Network& network) {
  if (!std::exchange(key.awaits_set, false) && !worker_0_left_) return;
  for (ShardPart& part : key.parts) {
    std::erase_if(part.pending, [&](const PendingRequest& waiter) {
      const std::string why = UnsatisfiableReason(key, part, waiter);
      key.awaits_set |= waiter.awaits_set && why.empty();
      if (why.empty()) return false;
      ++counters_[Counter::kRejected];
      SendError({waiter.rank, waiter.peer, waiter.request_id}, Fail(ErrorCode::kFailedPrecondition, why),
                network);
      return true;
    });
  }
}

std::string Shard::MissingText(const ShardKey& key, const ShardPart& part,
                               const PendingRequest& waiter) const {
  return waiter.awaits_set ? "worker 0 to set it as well" : MissingText(key, part);
}

std::string Shard::MissingText(const ShardKey& key, const ShardPart& part) const {
  if (!part.initialised) return "worker 0 to initialise the key";
  if (key.async()) return "this worker's own push";
  std::set<uint32_t> missing;
  for (const ShardPart& one : PartsClosingWith(key, part)) {
    const auto of_part = one.rounds.empty() ? std::vector<uint32_t>(live_.begin(), live_.end())
                                            : one.rounds.front().Missing(live_);
    missing.insert(of_part.begin(), of_part.end());
  }
  std::vector<std::string> names;
  for (const uint32_t rank : missing) names.push_back(StrCat("worker ", rank));
  return StrJoin(names);
}

void Shard::Flush(transport::Network& network) {
  update_queue_.Run();
  if (replies_.empty() && deferred_.empty()) return;
  do {
    replies_.Flush(
        [&](transport::PeerId peer, uint64_t request_id, wire::Values values, wire::Frames frames) {
          Send(peer, request_id, std::move(values), std::move(frames), network);
          if (!network.HasRoom(peer)) without_room_.insert(peer);
        });
  } while (!deferred_.empty() && AnswerSomeDeferred());
}

void Shard::Send(transport::PeerId to, uint64_t in_reply_to, wire::Body body, wire::Frames frames,
                 transport::Network& network) {
  wire::Message message;
  message.job = options_.job;
  message.sender = {wire::Role::kServer, rank_, options_.incarnation};
  message.in_reply_to = in_reply_to;
  message.epoch = epoch_;
  message.body = std::move(body);
  message.payload = std::move(frames);
  network.Send(to, std::move(message));
}

void Shard::SendError(const Sender& to, const Failure& failure, transport::Network& network) {
  Send(to.peer, to.request_id, wire::ErrorReply{failure.code, failure.message}, {}, network);
}

}  // namespace sluice::server
