// Collects what one event answers, so that small values for one request share a message.
#pragma once

#include <algorithm>
#include <vector>

#include "transport/transport.h"

namespace sluice::server {

class ReplyBatcher {
 public:
  // A value for `request_id` of `peer`, which is there `as` this; an empty frame with has_data false answers
  // with the version alone.
  void Add(transport::PeerId peer, uint64_t request_id, const wire::ValuePart& part, bool has_data,
           Frame frame, Compression as = Compression::kNone, size_t share = kShare);
  // Sends all, through `send(peer, in_reply_to, Values, frames)`, and forgets them. Values above `share`
  // bytes go alone.
  template <typename SendFn>
  void Flush(SendFn&& send) {
    for (OpenMessage& open : open_) {
      newest_[open.place] = kNone;
      send(open.peer, open.request_id, std::move(open.values), std::move(open.frames));
    }
    open_.clear();
    bytes_ = 0;
  }
  bool empty() const { return open_.empty(); }
  size_t bytes() const { return bytes_; }  // of all values

  // Bytes that values sharing a message may have together. A push is as large as its worker's link allows,
  // and so are its answers: those to pushes of few bits are no larger than others.
  static constexpr size_t kShare = 1 << 20, kLeastShare = 128 << 10;
  static size_t ShareOf(uint64_t pushed_bytes) {
    return std::clamp<uint64_t>(pushed_bytes, kLeastShare, kShare);
  }
  static constexpr size_t kMaxFrames = 1024;

 private:
  struct OpenMessage {
    transport::PeerId peer;
    uint64_t request_id;
    wire::Values values;
    wire::Frames frames;
    size_t bytes = 0;
    uint32_t before = kNone;  // the one before of the same request and form
    size_t place = 0;         // of its request and form in newest_
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  // Of one request so many messages may still have room: who looked through all of them would take longer
  // for every value that is larger than what is left in each.
  static constexpr int kLooked = 4;

  OpenMessage* WithRoom(uint32_t newest, size_t bytes, size_t share);
  // Where newest_ has the open message that a value would join, or has a free place for it.
  size_t PlaceOf(transport::PeerId peer, uint64_t request_id, bool has_data, Compression as) const;
  void MakeRoom();

  std::vector<OpenMessage> open_;
  size_t bytes_ = 0;
  // A hash table of the newest of each request and form among open_: half of its places are free.
  std::vector<uint32_t> newest_ = std::vector<uint32_t>(64, kNone);
};

}  // namespace sluice::server
