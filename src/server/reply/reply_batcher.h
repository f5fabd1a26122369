// Collects the answers that a shard makes until its next Flush, so that small values
// for one request share a message.
#pragma once

#include <algorithm>
#include <vector>

#include "transport/transport.h"

namespace sluice::server {

class ReplyBatcher {
 public:
  // Adds a value that answers `request_id` of `peer`, encoded as `as`. With has_data false the answer is
  // the version alone, and `frame` is empty. Values of one message have at most `share` bytes together, and
  // at most kMostMessageBytes; a larger value has a message of its own.
  void Add(transport::PeerId peer, uint64_t request_id, const wire::ValuePart& part, bool has_data,
           Frame frame, Compression as = Compression::kNone, size_t share = kMostMessageBytes);
  // Sends all messages through `send(peer, in_reply_to, Values, frames)` and forgets them.
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
  size_t bytes() const { return bytes_; }  // bytes of all values

  // ShareOf is the `share` for answers to a push of `pushed_bytes`: as many bytes, within these bounds. A
  // worker makes its pushes as large as its link allows, so answers of that size suit the link as well, also
  // when the pushes are compressed and the values are not.
  static constexpr size_t kMostMessageBytes = 1 << 20, kLeastMessageBytes = 128 << 10;
  static size_t ShareOf(uint64_t pushed_bytes) {
    return std::clamp<uint64_t>(pushed_bytes, kLeastMessageBytes, kMostMessageBytes);
  }
  static constexpr size_t kMaxFrames = 1024;

 private:
  struct OpenMessage {
    transport::PeerId peer;
    uint64_t request_id;
    wire::Values values;
    wire::Frames frames;
    size_t bytes = 0;
    uint32_t before = kNone;  // index in open_ of the previous message of the same request and form
    size_t place = 0;         // index in newest_
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  // Add looks for room in this many of a request's newest messages. A search through all of them would take
  // longer and longer when every value is larger than the room that is left in each.
  static constexpr int kLooked = 4;

  OpenMessage* WithRoom(uint32_t newest, size_t bytes, size_t share);
  // The index in newest_ of the request and form, or of a free place for them.
  size_t PlaceOf(transport::PeerId peer, uint64_t request_id, bool has_data, Compression as) const;
  void MakeRoom();

  std::vector<OpenMessage> open_;
  size_t bytes_ = 0;
  // A hash table with linear probing: the index in open_ of the newest message of each request and form
  // (has_data and encoding). At least half of its places are free.
  std::vector<uint32_t> newest_ = std::vector<uint32_t>(64, kNone);
};

}  // namespace sluice::server
