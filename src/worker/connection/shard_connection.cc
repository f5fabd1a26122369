// ShardConnection: batches of parts leave while the window of their lane has room, and what the shard does
// not answer is sent again.
//
// The client's loop calls everything here. Requests refer to parts, whose bytes lie in their operation's
// source: neither a batch nor a repeat copies payload. A part counts against its lane from when it is sent
// until ReleaseInFlight, which whoever ends or acknowledges the part calls once or more often.
#include "worker/connection/shard_connection.h"

#include <algorithm>

#include "base/strings.h"
#include "worker/connection/batch_message.h"

namespace sluice::worker {

ShardConnection::ShardConnection(transport::PeerId peer, uint32_t server, const Options& options,
                                 MessageFactory& messages)
    : peer_(peer),
      server_(server),
      messages_(messages),
      tracer_(options.tracer),
      requests_(options.resend_timeout, options.records),
      pushes_{SendQueue(options.records),
              CongestionWindow(CongestionWindow::kLeast, options.max_inflight_bytes)},
      pulls_{SendQueue(options.records),
             CongestionWindow(options.max_inflight_bytes, options.max_inflight_bytes)} {}

void ShardConnection::Enqueue(PartOpPtr part) {
  Lane& lane = LaneOf(*part);
  lane.queue.Add(std::move(part));
}

// Among the lanes that may send, returns the one whose next part has the higher priority, or was
// issued first. Null: neither may send.
ShardConnection::Lane* ShardConnection::PickLane() {
  if (!pushes_.CanSend()) return pulls_.CanSend() ? &pulls_ : nullptr;
  return pulls_.CanSend() && pulls_.queue.Before(pushes_.queue) ? &pulls_ : &pushes_;
}

void ShardConnection::Flush(Time now, transport::Network& network) {
  while (Lane* lane = PickLane()) {
    const size_t most = lane == &pushes_ ? SendQueue::kPushedBytes : SendQueue::kPulledBytes;
    const size_t half = lane->window.bytes() / 2;
    PartOps batch = lane->queue.NextBatch(std::min(most, half), half);
    if (batch.empty()) continue;
    lane->last_priority = batch.back()->op->priority;
    const uint64_t id = messages_.TakeId();
    for (const PartOpPtr& part : batch) {
      part->sent = true;
      part->in_flight = part->bytes();
      lane->in_flight += part->bytes();
      part->request = id;
      if (part->op->IsPush()) tracer_.OnStage(now, Stage::kPush, part->ref.key, part->round(), part->bytes());
    }
    Send(id, batch, network);
    requests_.Add(now, id, lane == &pushes_ ? lane->in_flight : 0, std::move(batch));
  }
}

void ShardConnection::SendSeparately(Time now, PartOps parts, transport::Network& network) {
  const uint64_t id = messages_.TakeId();
  for (const PartOpPtr& part : parts) part->request = id;
  Send(id, parts, network);
  requests_.Add(now, id, 0, std::move(parts));
}

void ShardConnection::Send(uint64_t id, const PartOps& parts, transport::Network& network) {
  wire::Message message = messages_.Make(wire::Ack{}, id);
  FillMessage(parts, &message);
  network.Send(peer_, std::move(message));
}

void ShardConnection::Repeat(Time now, transport::Network& network) {
  if (now < requests_.NextTimer()) return;
  for (const uint64_t id : requests_.Due(now)) {
    PartOps again, value_only;
    for (const PartOpPtr& part : requests_.Find(id)->parts) {
      if (part->finished) continue;
      // The shard has the push of an acknowledged part. Only its value is missing, and a Pull
      // without payload asks for that.
      (part->acked ? value_only : again).push_back(part);
    }
    if (!again.empty()) Send(id, again, network);
    if (value_only.empty()) continue;
    wire::Pull pull{.parts = {}, .values = value_only.front()->op->compression.weights};
    for (const PartOpPtr& part : value_only) pull.parts.push_back({part->ref, part->op->slot, part->round()});
    network.Send(peer_, messages_.Make(std::move(pull), id));
  }
}

const PartOps* ShardConnection::PartsOf(uint64_t id) {
  const OutstandingRequests::Request* request = requests_.Find(id);
  return request == nullptr ? nullptr : &request->parts;
}

// Measures how long the message took to arrive. After a resend it is unknown which copy has arrived, so
// only messages that were sent once are measured.
void ShardConnection::Measure(Time now, OutstandingRequests::Request& request) {
  const uint64_t in_flight = std::exchange(request.in_flight, 0);
  if (in_flight > 0 && request.repeats == 0) pushes_.window.OnArrival(in_flight, now - request.sent);
}

const PartOps* ShardConnection::OnArrival(Time now, uint64_t id) {
  OutstandingRequests::Request* request = requests_.Find(id);
  if (request == nullptr) return nullptr;
  Measure(now, *request);
  return &request->parts;
}

void ShardConnection::OnProgress(Time now, uint64_t id) {
  OutstandingRequests::Request* request = requests_.Find(id);
  if (request == nullptr) return;
  Measure(now, *request);
  requests_.OnProgress(now, *request);
}

void ShardConnection::EndIfFinished(uint64_t id) {
  if (const OutstandingRequests::Request* request = requests_.Find(id);
      request != nullptr && OutstandingRequests::Finished(*request))
    requests_.Erase(id);
}

PartOps ShardConnection::TakeRequest(uint64_t id) {
  OutstandingRequests::Request* request = requests_.Find(id);
  if (request == nullptr) return {};
  PartOps parts = std::move(request->parts);
  requests_.Erase(id);
  return parts;
}

void ShardConnection::Clear() {
  pushes_.Clear();
  pulls_.Clear();
  requests_.Clear();
}

std::string ShardConnection::Describe() const {
  return StrCat(pushes_.queue.size() + pulls_.queue.size(), " parts queued, ", requests_.size(),
                " requests unanswered, ", HumanBytes(pushes_.in_flight + pulls_.in_flight), " in flight");
}

}  // namespace sluice::worker
