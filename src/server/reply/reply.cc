// Answering who waits.
#include <algorithm>

#include "base/strings.h"
#include "kvstore/rows/frame.h"
#include "server/shard.h"

namespace sluice::server {
namespace {

// What a training round takes is no news: only who waits longer hears for whom, and then ever more rarely.
constexpr Duration kFirstWord = 100ms;
constexpr Duration kLongestPause = 2s;

}  // namespace

bool Shard::Ready(const Key& key, const Part& part, const Waiter& waiter) const {
  if (!key.async()) return part.initialised && part.version >= waiter.min_round;
  if (key.initialised_parts < key.parts.size()) return false;
  const auto it = key.pushes.find(waiter.rank);
  return (it == key.pushes.end() ? 0 : it->second.applied) >= waiter.min_round;
}

void Shard::Answer(const Key& key, Part& part, const Waiter& waiter) {
  wire::ValuePart value{part.ref, waiter.slot, part.version};
  if (key.async() && waiter.slot == 0) {  // a worker counts its own pushes
    const auto it = key.pushes.find(waiter.rank);
    value.version = it == key.pushes.end() ? 0 : it->second.applied;
  }
  // A lease shows the weight when it is sent; what is made of it here needs it now.
  if (waiter.slot > 0 || waiter.as != Compression::kNone) updates_.Run();
  Frame frame;
  if (waiter.slot > 0) {
    value.version = static_cast<uint64_t>(part.num_updates);
    // States change in place: a copy, on the rare way of saving them.
    if (waiter.want_data && part.rows == nullptr) {
      frame = Frame::Copy(part.states.arrays[waiter.slot - 1]->bytes());
      tally_[Count::kBytesCopied] += frame.size();
    }
  } else if (waiter.want_data && part.rows == nullptr) {
    frame = part.weight->Share(waiter.as);
  }
  if (waiter.want_data && part.rows != nullptr) {
    frame = ReadRows(part, waiter);
    tally_[Count::kBytesCopied] += frame.size();
  }
  tally_[Count::kBytesOut] += frame.size();
  const Compression as = waiter.slot == 0 ? waiter.as : Compression::kNone;
  replies_.Add(waiter.peer, waiter.request_id, value, waiter.want_data, std::move(frame), as, waiter.share);
}

Frame Shard::ReadRows(const Part& part, const Waiter& waiter) const {
  const kvstore::RowTable& table = *part.rows;
  const size_t rows = waiter.ids.size() / sizeof(int64_t);
  const size_t each = waiter.slot == 0 ? table.row_bytes() : table.state_bytes();
  const auto read = std::make_shared<Buffer>(rows * each, options_.memory);
  std::byte* to = read->data();
  for (size_t i = 0; i < rows; ++i, to += each) {
    const int64_t id = kvstore::IdAt(waiter.ids.bytes(), i);
    waiter.slot == 0 ? table.Read(id, to) : table.ReadState(waiter.slot - 1, id, to);
  }
  return Frame::Of(read);
}

void Shard::AnswerWaiters(Key& key, Part& part) {
  if (part.waiters.empty()) return;
  auto waiting = std::partition(part.waiters.begin(), part.waiters.end(),
                                [&](const Waiter& waiter) { return !Ready(key, part, waiter); });
  for (auto it = waiting; it != part.waiters.end(); ++it) {
    if (!it->want_data || it->slot <= part.num_states()) Answer(key, part, *it);
  }
  part.waiters.erase(waiting, part.waiters.end());
}

void Shard::KeepWaiting(Time now, Part& part, Waiter waiter) {
  waiter.next_word = now + kFirstWord;
  waiter.pause = kFirstWord;
  next_word_ = std::min(next_word_, waiter.next_word);
  part.Wait(waiter);
}

void Shard::OnTimer(Time now, transport::Network& network) {
  ReturnLoans(now);
  if (now < next_word_) return;
  next_word_ = Time::max();
  for (const auto& key : keys_) {
    if (key != nullptr) TellWaiters(now, *key, key->parts, network);
  }
}

void Shard::TellWaiters(Time now, const Key& key, std::vector<Part>& parts, transport::Network& network) {
  std::set<std::pair<transport::PeerId, uint64_t>> told;  // one word for a request's whole key
  for (Part& part : parts) {
    for (Waiter& waiter : part.waiters) {
      if (now >= waiter.next_word) {
        waiter.pause = std::min(2 * waiter.pause, kLongestPause);
        waiter.next_word = now + waiter.pause;
        if (told.emplace(waiter.peer, waiter.request_id).second) {
          ++tally_[Count::kWordsToWaiters];
          Send(waiter.peer, waiter.request_id,
               wire::BarrierWaiting{wire::ToString(key.entry.spec), MissingText(key, part)}, {}, network);
        }
      }
      next_word_ = std::min(next_word_, waiter.next_word);
    }
  }
}

std::string Shard::MissingText(const Key& key, const Part& part) const {
  if (!part.initialised) return "worker 0 to initialise the key";
  if (key.async()) return "this worker's own push";
  std::set<uint32_t> missing;
  for (const Part& one : ClosingWith(key, part)) {
    const auto of_part = one.rounds.empty() ? std::vector<uint32_t>(live_.begin(), live_.end())
                                            : one.rounds.front().Missing(live_);
    missing.insert(of_part.begin(), of_part.end());
  }
  std::vector<std::string> names;
  for (const uint32_t rank : missing) names.push_back(StrCat("worker ", rank));
  return StrJoin(names);
}

void Shard::Flush(transport::Network& network) {
  updates_.Run();
  if (replies_.empty()) return;
  replies_.Flush([&](transport::PeerId peer, uint64_t request_id, wire::Values values, wire::Frames frames) {
    Send(peer, request_id, std::move(values), std::move(frames), network);
  });
}

void Shard::Send(transport::PeerId to, uint64_t in_reply_to, wire::Body body, wire::Frames frames,
                 transport::Network& network) {
  wire::Message message;
  message.job = options_.job;
  message.sender = {wire::Role::kServer, rank_, options_.incarnation};
  message.in_reply_to = in_reply_to;
  message.epoch = epoch_;
  message.body = std::move(body);
  message.payload = std::move(frames);
  network.Send(to, std::move(message));
}

void Shard::Refuse(const Sender& to, const Failure& failure, transport::Network& network) {
  Send(to.peer, to.request_id, wire::ErrorReply{failure.code, failure.message}, {}, network);
}

}  // namespace sluice::server
