#include "transport/zmq/memory_exchange.h"

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::transport {
namespace {

// Link requests to one peer whose rendezvous socket is full. Before each of them a GetMemory message has made
// the peer read that socket.
constexpr int kMaxRequestAttempts = 100;

}  // namespace

void MemoryExchange::OnConnect(PeerId peer) {
  if (sharing_ != nullptr) sender_.SendToLoop(peer, wire::GetMemory{});
}

bool MemoryExchange::OnMessage(Peer* peer, const wire::Message& message) {
  const auto* offer = std::get_if<wire::MemoryOffer>(&message.body);
  if (offer == nullptr && !std::holds_alternative<wire::GetMemory>(message.body)) return false;
  if (sharing_ != nullptr) sharing_->Collect(peer->id);
  if (offer == nullptr) {
    AnswerGetMemory(*peer);
  } else if (sharing_ != nullptr && peer->dealer) {
    Accept(peer, message, *offer);
  }
  return true;
}

void MemoryExchange::AnswerGetMemory(const Peer& peer) {
  if (sharing_ == nullptr || peer.dealer) {
    return sender_.SendToLoop(peer.id, wire::MemoryOffer{{}, {}, "it shares none"});
  }
  ReadDescriptors();  // makes room in the rendezvous socket's queue
  sender_.SendToLoop(peer.id, sharing_->OfferTo(peer.id));
}

void MemoryExchange::Accept(Peer* peer, const wire::Message& message, const wire::MemoryOffer& offer) {
  if (message.sender.role == wire::Role::kScheduler) return;  // the scheduler has no payloads
  const Status status = sharing_->Accept(peer->id, offer);
  if (sharing_->changed()) poll_set_.Invalidate();
  if (status) {
    VLOG(1) << loop_.options.name << " shares memory with " << peer->name;
  } else if (status.failure().code == ErrorCode::kResourceExhausted &&
             ++peer->request_attempts < kMaxRequestAttempts) {
    sender_.SendToLoop(peer->id, wire::GetMemory{});
  } else {
    ReportNotShared(*peer, status.failure().message);
  }
}

void MemoryExchange::ReportNotShared(const Peer& peer, const std::string& reason) {
  const std::string why = StrCat("no memory is shared with ", peer.name, ": ", reason);
  if (loop_.options.requires_shared_memory) {
    throw Error(ErrorCode::kFailedPrecondition,
                StrCat(why, "; SLUICE_TRANSPORT is shm, and with auto payloads travel by messages instead"));
  }
  VLOG(1) << WrapLogged(StrCat(loop_.options.name, ": ", why, "; payloads travel by messages"));
}

Status MemoryExchange::OpenLeases(const Peer& peer, wire::Message* message) {
  if (sharing_ != nullptr) return sharing_->OpenLeases(peer.id, message);
  if (message->leased.empty()) return Status::Ok();
  return Fail(ErrorCode::kInvalidArgument, "payload in memory that is not shared");
}

void MemoryExchange::Read(bool wakes_peers) {
  if (sharing_ == nullptr) return;
  if (!poll_set_.sharing_drained()) ReadDescriptors();
  if (wakes_peers) sharing_->WakePeersOfReturns();
}

void MemoryExchange::ReadDescriptors() {
  poll_set_.OnSharingRead();
  sharing_->Read();
  if (sharing_->changed()) poll_set_.Invalidate();
  for (const PeerId id : sharing_->TakeRefused()) {
    if (const Peer* peer = peers_.Find(id); peer != nullptr && peer->dealer)
      ReportNotShared(*peer, "it refused the request: it runs as another user, or has no room for more");
  }
}

}  // namespace sluice::transport
