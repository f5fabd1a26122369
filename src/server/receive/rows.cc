// Shard's receive step for row-sparse keys: pulls of rows, lists of row ids, and stores
// of rows. Runs on the shard's loop.
//
// As in receive.cc, a message is checked as a whole before it changes anything (validate.h).
#include <algorithm>

#include "base/strings.h"
#include "kvstore/rows/row_frame.h"
#include "server/receive/validate.h"
#include "server/shard.h"

namespace sluice::server {
namespace {

constexpr size_t kMostIds = 32768;  // ids in one answer to GetRowIds

}  // namespace

void Shard::OnPullRows(Time now, const Sender& sender, const wire::Message& message,
                       transport::Network& network) {
  const auto& pull = std::get<wire::PullRows>(message.body);
  ShardKey* key = nullptr;
  ShardPart* part = nullptr;
  for (size_t i = 0; i < pull.parts.size(); ++i) {
    if (Status status = ValidatePullRows(keys_, sender.rank, sender.request_id, pull.parts[i],
                                         message.payload[i].bytes(), &key, &part);
        !status) {
      ++counters_[Counter::kRejected];
      return SendError(sender, status.failure(), network);
    }
  }
  for (size_t i = 0; i < pull.parts.size(); ++i) {
    part = keys_.FindPart(pull.parts[i].ref, &key).value();
    ++counters_[Counter::kPulls];
    PendingRequest waiter{.rank = sender.rank,
                          .slot = pull.parts[i].slot,
                          .min_version = pull.parts[i].min_version,
                          .peer = sender.peer,
                          .request_id = sender.request_id,
                          .ids = message.payload[i]};
    AnswerOrWait(now, *key, *part, std::move(waiter));
  }
}

void Shard::OnGetRowIds(const Sender& sender, const wire::Message& message, transport::Network& network) {
  const auto& wanted = std::get<wire::GetRowIds>(message.body);
  ShardKey* key = nullptr;
  const Result<ShardPart*> part = keys_.FindPart(wanted.ref, &key);
  if (!part || !key->places) {
    ++counters_[Counter::kRejected];
    return SendError(sender,
                     !part ? part.failure()
                           : Fail(ErrorCode::kInvalidArgument, "key ", wire::ToString(key->entry.spec),
                                  " is not row-sparse: it has no list of rows"),
                     network);
  }
  const std::span<const int64_t> ids = part.value()->rows->ids();
  const std::span<const int64_t> rest = ids.subspan(std::min<size_t>(wanted.first, ids.size()));
  wire::RowIds answer{.total = ids.size(), .ids = {}};
  for (const int64_t id : rest.first(std::min(rest.size(), kMostIds)))
    answer.ids.push_back(static_cast<uint64_t>(id));
  Send(sender.peer, sender.request_id, std::move(answer), {}, network);
}

void Shard::StoreRows(ShardPart& part, uint32_t slot, const Frame& frame) {
  kvstore::RowTable& table = *part.rows;
  const size_t each = slot == 0 ? table.row_bytes() : table.state_bytes();
  const kvstore::RowFrame rows(frame.bytes(), each);
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t row = table.Touch(rows.id(i));
    std::memcpy(slot == 0 ? table.Weight(row) : table.State(slot - 1, row), rows.row(i), each);
  }
}

}  // namespace sluice::server
