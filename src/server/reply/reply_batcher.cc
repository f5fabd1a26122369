#include "server/reply/reply_batcher.h"

#include "base/rng.h"

namespace sluice::server {

void ReplyBatcher::Add(transport::PeerId peer, uint64_t request_id, const wire::ValuePart& part,
                       bool has_data, Frame frame, Compression as, size_t share) {
  const size_t bytes = frame.size();
  MakeRoom();
  const size_t place = PlaceOf(peer, request_id, has_data, as);
  OpenMessage* open = WithRoom(newest_[place], bytes, std::min(share, kMostMessageBytes));
  if (open == nullptr) {
    open = &open_.emplace_back(OpenMessage{peer, request_id, {}, {}, 0, newest_[place], place});
    open->values.has_data = has_data;
    open->values.compression = as;
    newest_[place] = static_cast<uint32_t>(open_.size() - 1);
  }
  open->values.parts.push_back(part);
  if (has_data) open->frames.push_back(std::move(frame));
  open->bytes += bytes;
  bytes_ += bytes;
}

ReplyBatcher::OpenMessage* ReplyBatcher::WithRoom(uint32_t newest, size_t bytes, size_t share) {
  int looked = 0;
  for (uint32_t i = newest; i != kNone && looked < kLooked; i = open_[i].before, ++looked) {
    OpenMessage& open = open_[i];
    if (open.bytes + bytes <= share && open.frames.size() < kMaxFrames) return &open;
  }
  return nullptr;
}

size_t ReplyBatcher::PlaceOf(transport::PeerId peer, uint64_t request_id, bool has_data,
                             Compression as) const {
  const auto is_it = [&](const OpenMessage& open) {
    return open.peer == peer && open.request_id == request_id && open.values.has_data == has_data &&
           open.values.compression == as;
  };
  const size_t mask = newest_.size() - 1;
  size_t place = MixBits(MixBits(peer.value) + request_id) & mask;
  while (newest_[place] != kNone && !is_it(open_[newest_[place]])) place = (place + 1) & mask;
  return place;
}

// Keeps at least half of the places free; each open message takes at most one.
void ReplyBatcher::MakeRoom() {
  if (2 * (open_.size() + 1) <= newest_.size()) return;
  newest_.assign(2 * newest_.size(), kNone);
  for (uint32_t i = 0; i < open_.size(); ++i) {
    OpenMessage& open = open_[i];
    open.place = PlaceOf(open.peer, open.request_id, open.values.has_data, open.values.compression);
    newest_[open.place] = i;
  }
}

}  // namespace sluice::server
