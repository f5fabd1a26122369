#include "transport/shm/memory_link.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/pool_allocator.h"
#include "base/strings.h"
#include "transport/shm/unix_socket.h"

namespace sluice::transport {
namespace {

// Read at once before others have their turn.
constexpr int kBurst = 256;

class Lease final : public Loan {
 public:
  Lease(std::shared_ptr<const Mapping> of, std::shared_ptr<LeaseBoard> board,
        std::shared_ptr<const Descriptor> socket, uint64_t number)
      : Loan(std::move(of)), board_(std::move(board)), socket_(std::move(socket)), number_(number) {}
  ~Lease() override { board_->Return(number_); }

 private:
  const std::shared_ptr<LeaseBoard> board_;
  const std::shared_ptr<const Descriptor> socket_;
  const uint64_t number_;
};

}  // namespace

MemoryLink::MemoryLink(Descriptor socket, std::shared_ptr<LeaseBoard> board,
                       std::shared_ptr<const LeaseBoardView> theirs, std::shared_ptr<SharedHeap> heap,
                       std::shared_ptr<Allocator> records)
    : board_(std::move(board)),
      heap_(std::move(heap)),
      records_(std::move(records)),
      socket_(std::make_shared<const Descriptor>(std::move(socket))),
      theirs_(std::move(theirs)),
      given_(64) {}

bool MemoryLink::SendBoard() {
  return Say(Kind::kBoard, 0, board_->fd());
}

bool MemoryLink::Say(Kind kind, uint64_t segment, int descriptor) {
  const Record record{kind, 0, segment};
  const std::span<const int> descriptors(&descriptor, descriptor < 0 ? 0 : 1);
  return SendRecord(socket_->get(), std::as_bytes(std::span(&record, 1)), descriptors);
}

bool MemoryLink::Announce(const SharedHeap::Place& place) {
  if (announced_.contains(place.number)) return true;
  if (!Say(Kind::kSegment, place.number, place.segment->fd())) return false;
  announced_[place.number] = true;
  return true;
}

// The peer has it mapped, which keeps its memory, until it hears that it is gone: where its socket is full,
// at the next loan.
void MemoryLink::ForgetGone() {
  const uint64_t gone = heap_->gone();
  if (gone == gone_) return;
  bool told = true;
  std::erase_if(announced_, [&](const auto& segment) {
    if (heap_->Has(segment.first)) return false;
    const bool heard = Say(Kind::kSegmentGone, segment.first);
    told = told && heard;
    return heard;
  });
  if (told) gone_ = gone;
}

std::optional<wire::LentFrame> MemoryLink::Lend(uint32_t index, const Frame& frame) {
  if (!ready()) return std::nullopt;
  const auto room = [&] { return next_ - first_ < kMostLeases && lent_bytes_ + frame.size() <= kMostLent; };
  if (!room()) Collect();
  const auto place = room() ? heap_->Find(frame.bytes()) : std::nullopt;
  ForgetGone();
  if (!place || !Announce(*place)) return std::nullopt;
  if (next_ - first_ == given_.size()) {
    std::vector<Given> larger(2 * given_.size());
    for (uint64_t lease = first_; lease != next_; ++lease)
      larger[lease & (larger.size() - 1)] = std::move(At(lease));
    given_ = std::move(larger);
  }
  const uint64_t lease = next_++;
  At(lease) = {frame, true};
  lent_bytes_ += frame.size();
  return wire::LentFrame{index, lease, place->number, place->offset, frame.size()};
}

void MemoryLink::Collect() {
  if (theirs_ == nullptr) return;
  if (open_) ForgetGone();
  for (uint64_t i = 0; i < kMostLeases; ++i) {  // who writes without end is not read without end
    const std::optional<uint64_t> lease = theirs_->Returned(collected_);
    if (!lease) break;
    ++collected_;
    if (*lease < first_ || *lease >= next_ || !At(*lease).out) continue;
    Given& given = At(*lease);
    lent_bytes_ -= given.frame.size();
    given = {};
  }
  while (first_ != next_ && !At(first_).out) ++first_;
}

Result<Frame> MemoryLink::Borrow(const wire::LentFrame& lent) {
  const auto refuse = [](const auto&... why) {
    return Fail(ErrorCode::kInvalidArgument, "a payload frame in memory that was lent: ", why...);
  };
  if (lent.lease < expected_) return refuse("it was given back already");
  // Those in between were lost; of a number from nowhere only the last places matter.
  const uint64_t lost = std::min(lent.lease - expected_, kMostLeases);
  for (uint64_t lease = lent.lease - lost; lease != lent.lease; ++lease) board_->Return(lease);
  expected_ = lent.lease + 1;
  auto found = mapped_.find(lent.segment);
  if (found == mapped_.end()) {
    Read();  // it was sent before
    found = mapped_.find(lent.segment);
  }
  std::string why;
  if (found == mapped_.end()) {
    why = StrCat("segment ", lent.segment, " has not come");
  } else if (const Bytes all = found->second.mapping->bytes();
             lent.offset > all.size() || lent.length > all.size() - lent.offset) {
    why = StrCat(lent.length, " bytes at ", lent.offset, " of ", all.size());
  } else {
    auto loan = std::allocate_shared<Lease>(MemoryOf<Lease>(records_), found->second.mapping, board_, socket_,
                                            lent.lease);
    return Frame::Borrowed(all.subspan(lent.offset, lent.length), std::move(loan));
  }
  board_->Return(lent.lease);
  if (found == mapped_.end() && full_)
    return Fail(ErrorCode::kResourceExhausted, "no room to map memory that was lent");
  return refuse(why);
}

void MemoryLink::WakeIfOwed() {
  const uint64_t count = board_->count();
  if (!open_ || count == told_) return;
  Say(Kind::kWake);  // where there is no room it has been woken already
  told_ = count;
}

void MemoryLink::Read() {
  for (int i = 0; open_ && i < kBurst; ++i) {
    Record record{};
    Received received;
    const Arrival arrival =
        ReceiveRecord(socket_->get(), std::as_writable_bytes(std::span(&record, 1)), &received);
    if (arrival == Arrival::kNothing) return;
    if (arrival == Arrival::kClosed || received.bytes != sizeof record ||
        !Hear(record, std::move(received.descriptors[0])))
      Close();
  }
}

// False: no peer of ours says so.
bool MemoryLink::Hear(const Record& record, Descriptor descriptor) {
  switch (record.kind) {
    case Kind::kBoard: {
      auto view = LeaseBoardView::Of(descriptor);
      if (!view || theirs_ != nullptr) return false;
      theirs_ = std::move(view).value();
      return true;
    }
    case Kind::kSegment: {
      if (mapped_.size() >= kMostSegments || mapped_.contains(record.segment)) return false;
      // The kernel keeps back what a full table of descriptors has no room for.
      if (!descriptor.valid()) return RefuseMore("no descriptor came with it, or there was no room for it");
      auto mapping = Mapping::Of(descriptor, kMostBytes - mapped_bytes_);
      if (!mapping && mapping.failure().code == ErrorCode::kResourceExhausted)
        return RefuseMore(mapping.failure().message);
      if (!mapping) return false;
      const uint64_t bytes = mapping.value()->bytes().size();
      mapped_[record.segment] = {std::move(mapping).value(), bytes};
      mapped_bytes_ += bytes;
      return true;
    }
    case Kind::kSegmentGone: {
      const auto gone = mapped_.find(record.segment);
      if (gone == mapped_.end()) return false;
      mapped_bytes_ -= gone->second.bytes;
      mapped_.erase(gone);
      return true;
    }
    case Kind::kWake:
      return true;
    case Kind::kNoMore:
      lends_ = false;
      return true;
  }
  return false;
}

// Not hung up: what was borrowed before is still being read, and the end of the socket would free it.
bool MemoryLink::RefuseMore(const std::string& why) {
  if (std::exchange(full_, true)) return true;
  LOG(WARNING) << WrapLogged(
      StrCat("memory that a peer lends cannot be mapped: ", why, "; its payloads travel by messages"));
  return Say(Kind::kNoMore);
}

// Who has hung up reads nothing any more. The socket stays until its number is watched no longer, and what
// was borrowed has gone.
void MemoryLink::Close() {
  open_ = false;
  given_.assign(given_.size(), {});
  first_ = next_;
  lent_bytes_ = 0;
  mapped_.clear();
  mapped_bytes_ = 0;
}

}  // namespace sluice::transport
