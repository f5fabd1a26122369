// All links of one loop. A bound loop has a rendezvous socket with a name in Linux's abstract namespace; a
// request to it is one record with a token, one end of a socket pair and the descriptor of the sender's
// LeaseReturns. A token is valid once, for one peer. Invariants: at most one link per peer; a bound loop
// keeps the link of a forgotten peer in draining_ while that peer still reads leases; no watched descriptor
// is closed except by CloseUnused. A loop calls everything as PayloadSharing, under its lock.
#include "transport/shm/shared_memory.h"

#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"
#include "transport/shm/unix_socket.h"

namespace sluice::transport {
namespace {

// Requests read in one call: every process of this host may send some.
constexpr int kBurst = 64;
// A bound, so that peers that connect and leave without end do not take memory without end.
constexpr size_t kMaxDraining = 64;
// Bytes of freed copies that are kept for the next ones.
constexpr size_t kKeptCopies = size_t{64} << 20;

std::array<char, 16> RandomToken() {
  std::array<char, 16> token;
  SLUICE_CHECK(getrandom(token.data(), token.size(), 0) == static_cast<ssize_t>(token.size()))
      << "no randomness";
  return token;
}

std::string Hex(const std::array<char, 16>& token) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : token) {
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[c & 15];
  }
  return hex;
}

}  // namespace

SharedMemory::SharedMemory(std::shared_ptr<SharedHeap> heap, bool bound, std::shared_ptr<Allocator> records)
    : heap_(std::move(heap)),
      records_(std::move(records)),
      copies_(std::make_shared<PoolAllocator>(kKeptCopies, heap_)) {
  if (!bound) return;
  rendezvous_name_ = "sluice-" + Hex(RandomToken());
  rendezvous_ = ListenAt(rendezvous_name_).OrThrow();
  const Token secret = RandomToken();
  std::copy_n(secret.begin(), secret_.size(), secret_.begin());
  if (!DropWithoutSecret(rendezvous_.get(), sizeof(Token), secret_))
    VLOG(1) << "datagrams without the secret are not filtered: " << std::strerror(errno);
}

wire::MemoryOffer SharedMemory::OfferTo(PeerId peer) {
  std::erase_if(offers_, [&](const auto& offer) { return offer.second == peer; });
  Token token = RandomToken();
  std::copy(secret_.begin(), secret_.end(), token.begin());
  offers_[token] = peer;
  return {rendezvous_name_, {token.data(), token.size()}, {}};
}

Status SharedMemory::Accept(PeerId peer, const wire::MemoryOffer& offer) {
  if (offer.rendezvous.empty()) return Fail(ErrorCode::kUnavailable, offer.why);
  // kUnavailable, not kResourceExhausted: another request would not help while this process lacks resources.
  auto returns = LeaseReturns::Make();
  if (!returns) return Fail(ErrorCode::kUnavailable, returns.failure().message);
  auto pair = MakeSocketPair();
  if (!pair) return Fail(ErrorCode::kUnavailable, pair.failure().message);
  auto& [mine, peer_returns] = pair.value();
  const int descriptors[] = {peer_returns.get(), returns.value()->fd()};
  if (Status status = SendTo(offer.rendezvous, AsBytes(offer.token), descriptors); !status) return status;
  Forget(peer);
  links_[peer] =
      std::make_unique<MemoryLink>(std::move(mine), std::move(returns).value(), nullptr, heap_, records_);
  changed_ = true;
  return Status::Ok();
}

// Any process of this host may send a request: a bad one gets no answer, and is logged at verbosity 1 only.
void SharedMemory::ReadRendezvous() {
  std::array<std::byte, sizeof(Token) + 1> request;
  for (int i = 0; i < kBurst; ++i) {
    Received received;
    if (ReceiveRecord(rendezvous_.get(), request, &received) == ReceiveResult::kNothing) return;
    auto& [socket, returns] = received.descriptors;
    if (const Status status = AcceptRequest(Bytes(request).first(received.bytes), std::move(socket), returns);
        !status)
      VLOG(1) << "a request for shared memory is refused: " << status.failure().message;
  }
}

Status SharedMemory::AcceptRequest(Bytes request, FileDescriptor socket, const FileDescriptor& returns) {
  Token token;
  if (request.size() != token.size() || !socket.valid() || !returns.valid())
    return Fail(ErrorCode::kInvalidArgument, "that is no token and two descriptors");
  std::memcpy(token.data(), request.data(), token.size());
  const auto offer = offers_.find(token);
  if (offer == offers_.end()) return Fail(ErrorCode::kPermissionDenied, "its token was given to no peer");
  if (UserOf(socket.get()) != geteuid()) return Fail(ErrorCode::kPermissionDenied, "it runs as another user");
  const PeerId peer = offer->second;
  offers_.erase(offer);
  auto peer_returns = LeaseReturnsView::Of(returns);
  if (!peer_returns) return peer_returns.failure();
  auto mine = LeaseReturns::Make();
  if (!mine) return mine.failure();
  auto link = std::make_unique<MemoryLink>(std::move(socket), std::move(mine).value(),
                                           std::move(peer_returns).value(), heap_, records_);
  if (!link->SendReturns()) return Fail(ErrorCode::kUnavailable, "it has gone again");
  Forget(peer);
  links_[peer] = std::move(link);
  changed_ = true;
  return Status::Ok();
}

uint64_t SharedMemory::LeaseOut(PeerId peer, wire::Message* message) {
  const auto found = links_.find(peer);
  if (found == links_.end()) return 0;
  uint64_t copied = 0;
  MemoryLink& link = *found->second;
  wire::Frames rest;
  for (uint32_t i = 0; link.ready() && i < message->payload.size(); ++i) {
    Frame& frame = message->payload[i];
    if (frame.size() < heap_->min_leased_bytes()) continue;
    auto leased = link.LeaseOut(i, frame);
    if (!leased && !heap_->Find(frame.bytes())) {
      auto copy = std::allocate_shared<Buffer>(MemoryOf<Buffer>(records_), frame.size(), copies_);
      std::memcpy(copy->data(), frame.data(), frame.size());
      copied += frame.size();
      leased = link.LeaseOut(i, Frame::Of(std::move(copy)));
      if (leased) ++counters_.copied;
    }
    if (!leased) continue;
    message->leased.push_back(*leased);
    ++counters_.leased;
  }
  link.MarkNotified();
  if (message->leased.empty()) return copied;
  size_t next = 0;
  for (uint32_t i = 0; i < message->payload.size(); ++i) {
    if (next < message->leased.size() && message->leased[next].index == i) {
      ++next;
    } else {
      rest.push_back(std::move(message->payload[i]));
    }
  }
  message->payload = std::move(rest);
  return copied;
}

Status SharedMemory::OpenLeases(PeerId peer, wire::Message* message) {
  const auto found = links_.find(peer);
  if (found != links_.end()) found->second->Collect();
  if (message->leased.empty()) return Status::Ok();
  if (found == links_.end()) return Fail(ErrorCode::kInvalidArgument, "payload in memory that is not shared");
  wire::Frames all;
  auto rest = message->payload.begin();
  Status status;
  for (const wire::LeasedFrame& leased : message->leased) {
    while (all.size() < leased.index && rest != message->payload.end()) all.push_back(std::move(*rest++));
    auto frame = found->second->OpenLease(leased);  // also after a failure, so that each lease is returned
    if (!frame) {
      status = frame.failure();
    } else if (all.size() != leased.index) {
      status = Fail(ErrorCode::kInvalidArgument, "payload frame ", leased.index, " in leased memory, of ",
                    all.size());
    } else {
      all.push_back(std::move(frame).value());
      ++counters_.leases_opened;
    }
  }
  while (rest != message->payload.end()) all.push_back(std::move(*rest++));
  message->payload = std::move(all);
  message->leased.clear();
  return status;
}

void SharedMemory::Collect(PeerId peer) {
  if (const auto found = links_.find(peer); found != links_.end()) found->second->Collect();
}

void SharedMemory::WakePeersOfReturns() {
  if (!rendezvous_.valid()) return;
  for (const auto& [peer, link] : links_) link->WakeIfReturned();
}

std::vector<int> SharedMemory::descriptors() const {
  std::vector<int> descriptors;
  if (rendezvous_.valid()) descriptors.push_back(rendezvous_.get());
  for (const auto& [peer, link] : links_) descriptors.push_back(link->fd());
  for (const auto& link : draining_) descriptors.push_back(link->fd());
  return descriptors;
}

void SharedMemory::CloseUnused() {
  unused_.clear();
  changed_ = false;
}

void SharedMemory::Read() {
  if (rendezvous_.valid()) ReadRendezvous();
  std::vector<PeerId> closed;
  for (const auto& [peer, link] : links_) {
    link->Read();
    link->Collect();
    if (link->open()) continue;
    closed.push_back(peer);
    if (!link->peer_answered()) refused_.push_back(peer);
  }
  for (const PeerId peer : closed) Forget(peer);
  ReadDraining();
}

void SharedMemory::ReadDraining() {
  for (const auto& link : draining_) {
    link->Read();
    link->Collect();
  }
  const auto over = std::stable_partition(draining_.begin(), draining_.end(), [](const auto& link) {
    return link->open() && link->leased_bytes() > 0;
  });
  if (over == draining_.end()) return;
  std::move(over, draining_.end(), std::back_inserter(unused_));
  draining_.erase(over, draining_.end());
  changed_ = true;
}

void SharedMemory::Forget(PeerId peer) {
  std::erase_if(offers_, [&](const auto& offer) { return offer.second == peer; });
  const auto found = links_.find(peer);
  if (found == links_.end()) return;
  const bool reads_on = rendezvous_.valid() && found->second->open() && found->second->leased_bytes() > 0;
  (reads_on ? draining_ : unused_).push_back(std::move(found->second));
  links_.erase(found);
  if (draining_.size() > kMaxDraining) {
    unused_.push_back(std::move(draining_.front()));
    draining_.erase(draining_.begin());
  }
  changed_ = true;
}

bool SharedMemory::AwaitReturns(Duration patience) {
  const SteadyClock clock;
  const Time deadline = clock.Now() + patience;
  while (true) {
    std::vector<pollfd> waiting;
    Read();
    for (const auto& [peer, link] : links_)
      if (link->leased_bytes() > 0) waiting.push_back({link->fd(), POLLIN, 0});
    const Duration left = deadline - clock.Now();
    if (waiting.empty() || left <= Duration::zero()) return waiting.empty();
    poll(waiting.data(), waiting.size(),
         static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  }
}

PayloadSharingMaker SharePayloadsOf(std::shared_ptr<SharedHeap> heap) {
  if (heap == nullptr) return nullptr;
  return [heap = std::move(heap)](bool bound, std::shared_ptr<Allocator> records) {
    return std::make_unique<SharedMemory>(heap, bound, std::move(records));
  };
}

}  // namespace sluice::transport
