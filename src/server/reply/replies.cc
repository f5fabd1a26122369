#include "server/reply/replies.h"

namespace sluice::server {

void Replies::Add(transport::PeerId peer, uint64_t request_id, const wire::ValuePart& part, bool has_data,
                  Frame frame, Compression as, size_t share) {
  const size_t bytes = frame.size();
  for (auto it = open_.rbegin(); it != open_.rend(); ++it) {
    if (it->peer == peer && it->request_id == request_id && it->values.has_data == has_data &&
        it->values.compression == as && it->bytes + bytes <= share && it->frames.size() < kMaxFrames) {
      it->values.parts.push_back(part);
      if (has_data) it->frames.push_back(std::move(frame));
      it->bytes += bytes;
      return;
    }
  }
  Open& open = open_.emplace_back(Open{peer, request_id, {}, {}, bytes});
  open.values.has_data = has_data;
  open.values.compression = as;
  open.values.parts.push_back(part);
  if (has_data) open.frames.push_back(std::move(frame));
}

}  // namespace sluice::server
