// A worker's connection to one shard: the parts that wait to be sent to it, in two lanes with a window
// each, and the requests that the shard has not answered, which are repeated until it has.
//
// Thread safety: the client's loop calls everything here.
#pragma once

#include <memory>
#include <string>

#include "transport/transport.h"
#include "worker/connection/congestion_window.h"
#include "worker/connection/message_factory.h"
#include "worker/connection/outstanding_requests.h"
#include "worker/connection/send_queue.h"
#include "worker/gradient_stages.h"

namespace sluice::worker {

class ShardConnection {
 public:
  struct Options {
    uint64_t max_inflight_bytes;         // ClientOptions
    Duration resend_timeout;             // ClientOptions
    std::shared_ptr<Allocator> records;  // memory for the records of parts and requests
    Tracer& tracer;                      // must outlive the connection
  };

  // `server` is the rank of the shard's server. `messages` must outlive the connection.
  ShardConnection(transport::PeerId peer, uint32_t server, const Options& options, MessageFactory& messages);

  transport::PeerId peer() const { return peer_; }
  uint32_t server() const { return server_; }

  // Appends a part to the queue of its lane.
  void Enqueue(PartOpPtr part);
  // Sends what is queued, in batches, while the lanes' windows have room.
  void Flush(Time now, transport::Network& network);
  // Sends the parts at once, as a message of their own that counts against no window.
  void SendSeparately(Time now, PartOps parts, transport::Network& network);
  // Sends the requests again that are due for a repeat.
  void Repeat(Time now, transport::Network& network);
  Time NextTimer() const { return requests_.NextTimer(); }

  // Returns the parts of the open request, or null when it has ended, as it has when its answer comes late.
  const PartOps* PartsOf(uint64_t id);
  // As PartsOf; the shard has acknowledged the request, so that the window learns how long it took.
  const PartOps* OnArrival(Time now, uint64_t id);
  // Some of what the request asks for has come, so that it has arrived and its repeat is put off.
  void OnProgress(Time now, uint64_t id);
  // Ends the request if all its parts have finished.
  void EndIfFinished(uint64_t id);
  // Ends the request and returns its parts; there are none when it has ended before.
  PartOps TakeRequest(uint64_t id);
  // Takes the part's bytes out of its lane's bytes in flight.
  void ReleaseInFlight(PartOp& part) { LaneOf(part).in_flight -= std::exchange(part.in_flight, 0); }

  // Drops what is queued and all requests.
  void Clear();
  // "3 parts queued, 1 request unanswered, 4 KiB in flight"
  std::string Describe() const;

 private:
  struct Lane {
    void Clear() {
      queue.Clear();
      in_flight = 0;
    }
    // Whether the window has room. For a part with a higher priority than the last one sent the window
    // counts twice, so that it need not wait for acknowledgements of less urgent parts.
    bool CanSend() const {
      if (queue.empty()) return false;
      return in_flight < (queue.priority() > last_priority ? 2 : 1) * window.bytes();
    }
    SendQueue queue;
    CongestionWindow window;
    uint64_t in_flight = 0;
    int last_priority = INT32_MAX;
  };

  Lane& LaneOf(const PartOp& part) { return part.HasPayload() ? pushes_ : pulls_; }
  Lane* PickLane();
  void Measure(Time now, OutstandingRequests::Request& request);
  void Send(uint64_t id, const PartOps& parts, transport::Network& network);

  const transport::PeerId peer_;
  const uint32_t server_;
  MessageFactory& messages_;
  Tracer& tracer_;
  OutstandingRequests requests_;
  Lane pushes_, pulls_;
};

}  // namespace sluice::worker
