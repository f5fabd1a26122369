// Responder: requests become answers here, and answers become messages.
//
// A request is in exactly one place: in one part's list of pending requests, or already among the answers
// that ReplyBatcher collects. An answer shares the weight's memory, which Flush lets the waiting updates
// write before anything is sent. Shard calls Responder on its loop, after whatever changes a part.
#include "server/reply/responder.h"

#include <algorithm>
#include <utility>

#include "kvstore/rows/row_frame.h"
#include "server/reply/wait_conditions.h"

namespace sluice::server {
namespace {

// Bytes of values that are collected before they are sent and the network is
// asked which peers still have room.
constexpr size_t kAtOnce = size_t{4} << 20;

Frame ReadRows(const ShardPart& part, const PendingRequest& request,
               const std::shared_ptr<Allocator>& memory) {
  const kvstore::RowTable& table = *part.rows;
  const size_t rows = request.ids.size() / sizeof(int64_t);
  const size_t each = request.slot == 0 ? table.row_bytes() : table.state_bytes();
  const auto read = std::make_shared<Buffer>(rows * each, memory);
  std::byte* to = read->data();
  for (size_t i = 0; i < rows; ++i, to += each) {
    const int64_t id = kvstore::IdAt(request.ids.bytes(), i);
    request.slot == 0 ? table.Read(id, to) : table.ReadState(request.slot - 1, id, to);
  }
  return Frame::Of(read);
}

}  // namespace

Responder::Responder(const ShardKeys& keys, UpdateQueue& updates, const ReplySender& sender,
                     StatusUpdates& status_updates, ShardCounters& counters,
                     std::shared_ptr<Allocator> memory)
    : keys_(keys),
      updates_(updates),
      sender_(sender),
      status_updates_(status_updates),
      counters_(counters),
      memory_(std::move(memory)) {}

bool Responder::AnswerOrWait(Time now, ShardKey& key, ShardPart& part, PendingRequest request) {
  bool deferred = false;  // a request for the same value is deferred
  for (PendingRequest& known : part.pending) {
    if (!known.deferred || !known.AsksFor(request)) continue;
    deferred = true;
    if (known.request_id != request.request_id) continue;
    known.peer = request.peer;  // a repeat of a request whose answer is deferred
    deferred_[request.peer].insert(part.ref);
    return false;
  }
  if (IsReady(key, part, request)) {
    if (!deferred && HasRoom(request)) {
      Answer(key, part, request);
      return true;
    }
    Defer(key, part, request);
  }
  // The ids may be a small slice of a large message, which they would keep in memory.
  if (request.ids.data() != nullptr) request.ids = Frame::Copy(request.ids.bytes());
  status_updates_.Schedule(now, &request);
  part.AddPending(std::move(request));
  return false;
}

void Responder::AnswerReady(ShardKey& key, ShardPart& part) {
  if (part.pending.empty()) return;
  auto ready = std::partition(part.pending.begin(), part.pending.end(), [&](const PendingRequest& request) {
    return request.deferred || !IsReady(key, part, request);
  });
  for (auto it = ready; it != part.pending.end(); ++it) {
    if (!HasRoom(*it)) {
      Defer(key, part, *it);
      std::swap(*it, *ready++);
    } else if (!it->want_data || it->slot <= part.num_states()) {
      Answer(key, part, *it);
    }
  }
  part.pending.erase(ready, part.pending.end());
}

bool Responder::HasRoom(const PendingRequest& request) const {
  return !request.want_data || (replies_.bytes() < kAtOnce && !without_room_.contains(request.peer));
}

void Responder::Defer(ShardKey& key, ShardPart& part, PendingRequest& request) {
  ++counters_[Counter::kAnswersDeferred];
  request.deferred = true;
  deferred_[request.peer].insert(part.ref);
  if (!key.async() || request.slot > 0 || key.parts.size() == 1 || part.rows != nullptr) return;
  std::weak_ptr<const uint64_t>& of_rank = key.pinned[request.rank];
  auto state = of_rank.lock();
  if (state == nullptr) of_rank = state = std::make_shared<const uint64_t>(part.version);
  request.pinned = {part.weight->Share(request.as), key.VersionFor(part, request.rank), std::move(state)};
}

bool Responder::AnswerSomeDeferred() {
  for (auto& [peer, parts] : deferred_) {
    if (without_room_.contains(peer)) continue;
    while (!parts.empty() && replies_.bytes() < kAtOnce)
      AnswerDeferred(peer, parts.extract(parts.begin()).value());
  }
  std::erase_if(deferred_, [](const auto& of_peer) { return of_peer.second.empty(); });
  return !replies_.empty();
}

void Responder::AnswerDeferred(transport::PeerId peer, const wire::PartRef& ref) {
  ShardKey& key = *keys_.Find(ref.key);
  ShardPart& part = *key.Find(ref.part);
  std::erase_if(part.pending, [&](const PendingRequest& request) {
    if (!request.deferred || request.peer != peer) return false;
    if (request.slot <= part.num_states()) Answer(key, part, request);
    return true;
  });
  if (std::erase_if(key.pinned, [](const auto& of_rank) { return of_rank.second.expired(); }) > 0)
    for (ShardPart& each : key.parts) AnswerReady(key, each);
}

void Responder::Answer(const ShardKey& key, ShardPart& part, const PendingRequest& request) {
  wire::ValuePart value{part.ref, request.slot, part.version};
  if (request.slot == 0) value.version = key.VersionFor(part, request.rank);
  if (request.pinned) value.version = request.pinned->version;
  // A frame of the weight itself is read when it is sent, and Flush runs the updates before. States and
  // rounded weights are read here, so the waiting updates must run first.
  if (request.slot > 0 || request.as != Compression::kNone) updates_.Run();
  Frame frame;
  if (request.slot > 0) {
    value.version = static_cast<uint64_t>(part.num_updates);
    // States change in place, so an answer carries a copy. They are pulled only when they are saved.
    if (request.want_data && part.rows == nullptr) {
      frame = Frame::Copy(part.states.arrays[request.slot - 1]->bytes());
      counters_[Counter::kBytesCopied] += frame.size();
    }
  } else if (request.want_data && part.rows == nullptr) {
    frame = request.pinned ? request.pinned->value : part.weight->Share(request.as);
  }
  if (request.want_data && part.rows != nullptr) {
    frame = ReadRows(part, request, memory_);
    counters_[Counter::kBytesCopied] += frame.size();
  }
  counters_[Counter::kBytesOut] += frame.size();
  const Compression as = request.slot == 0 ? request.as : Compression::kNone;
  replies_.Add(request.peer, request.request_id, value, request.want_data, std::move(frame), as,
               request.share);
}

void Responder::Flush(transport::Network& network) {
  updates_.Run();
  if (replies_.empty() && deferred_.empty()) return;
  do {
    replies_.Flush(
        [&](transport::PeerId peer, uint64_t request_id, wire::Values values, wire::Frames frames) {
          sender_.Send(peer, request_id, std::move(values), std::move(frames), network);
          if (!network.HasRoom(peer)) without_room_.insert(peer);
        });
  } while (!deferred_.empty() && AnswerSomeDeferred());
}

}  // namespace sluice::server
