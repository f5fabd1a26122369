// The loop's part in shared memory: it exchanges offers with its peers and reads the links' sockets.
#include "base/strings.h"
#include "sluice/error.h"
#include "transport/zmq/zmq_driver.h"

namespace sluice::transport {
namespace {

// Link requests to one peer whose rendezvous socket is full. Before each of them a GetMemory message has made
// the peer read that socket.
constexpr int kMaxRequestAttempts = 100;

}  // namespace

wire::Message ZmqDriver::LoopMessage(wire::Body body) const {
  wire::Message message;
  message.job = options_.job;
  message.sender.role = options_.role;
  message.body = std::move(body);
  return message;
}

// Handles messages between loops, which the machine does not see. Returns true when `message` was one.
bool ZmqDriver::OnMemoryMessage(Peer* peer, const wire::Message& message) {
  if (std::holds_alternative<wire::GetMemory>(message.body)) {
    const bool shares = shared_ && !peer->dealer;
    if (shares) ReadMemory();  // makes room in the rendezvous socket's queue
    wire::MemoryOffer none{{}, {}, "it shares none"};
    Send(peer->id, LoopMessage(shares ? shared_->OfferTo(peer->id) : std::move(none)));
    return true;
  }
  const auto* offer = std::get_if<wire::MemoryOffer>(&message.body);
  if (offer == nullptr) return false;
  if (shared_ && peer->dealer) AcceptMemory(peer, message, *offer);
  return true;
}

void ZmqDriver::AcceptMemory(Peer* peer, const wire::Message& message, const wire::MemoryOffer& offer) {
  if (message.sender.role == wire::Role::kScheduler) return;  // the scheduler has no payloads
  const Status status = shared_->Accept(peer->id, offer);
  channels_changed_ = channels_changed_ || shared_->changed();
  if (status) {
    VLOG(1) << options_.name << " shares memory with " << peer->name;
  } else if (status.failure().code == ErrorCode::kResourceExhausted &&
             ++peer->request_attempts < kMaxRequestAttempts) {
    Send(peer->id, LoopMessage(wire::GetMemory{}));
  } else {
    ReportNotShared(*peer, status.failure().message);
  }
}

void ZmqDriver::ReportNotShared(const Peer& peer, const std::string& reason) {
  const std::string why = StrCat("no memory is shared with ", peer.name, ": ", reason);
  if (options_.requires_shared_memory) {
    throw Error(ErrorCode::kFailedPrecondition,
                StrCat(why, "; SLUICE_TRANSPORT is shm, and with auto payloads travel by messages instead"));
  }
  VLOG(1) << WrapLogged(StrCat(options_.name, ": ", why, "; payloads travel by messages"));
}

void ZmqDriver::ReadMemory() {
  shared_drained_ = true;
  shared_->Read();
  channels_changed_ = channels_changed_ || shared_->changed();
  for (const PeerId id : shared_->TakeRefused()) {
    if (const Peer* peer = Find(id); peer != nullptr && peer->dealer)
      ReportNotShared(*peer, "it refused the request: it runs as another user, or has no room for more");
  }
}

}  // namespace sluice::transport
