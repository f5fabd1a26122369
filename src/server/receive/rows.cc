// Shard's receive step for row-sparse keys: pulls of rows, lists of row ids, and stores
// of rows. Runs on the shard's loop.
//
// As in receive.cc, a message is checked as a whole before it changes anything. Pulls of rows keep their ids
// while they wait, so their number and their bytes are bounded per part (kMostWaiting, kMostWaitingBytes).
#include <algorithm>

#include "base/strings.h"
#include "kvstore/rows/row_frame.h"
#include "server/shard.h"
#include "wire/codec.h"

namespace sluice::server {
namespace {

// Bounds for the pulls that wait on one part; far more than workers have under way.
constexpr size_t kMostWaiting = 4096;                            // pulls
constexpr size_t kMostWaitingBytes = 8 * wire::kMostFrameBytes;  // bytes of their ids
constexpr size_t kMostIds = 32768;                               // ids in one answer to GetRowIds

struct Waiting {
  size_t pulls = 0, bytes = 0;  // `bytes`: of the ids that are kept
};
// Counts the pulls that wait on the part, without those of the given request, which its repeat replaces.
Waiting WaitingBeside(const Part& part, uint32_t rank, uint64_t request_id) {
  Waiting waiting;
  for (const Waiter& waiter : part.waiters) {
    if (waiter.rank == rank && waiter.request_id == request_id) continue;
    ++waiting.pulls;
    waiting.bytes += waiter.ids.size();
  }
  return waiting;
}

}  // namespace

Status Shard::ValidatePullRows(const Sender& sender, const wire::RowsPart& wanted, Bytes ids, Key** key,
                               Part** part) {
  const Result<Part*> found = FindPart(wanted.ref, key);
  if (!found) return found.failure();
  *part = found.value();
  const auto refuse = [&](ErrorCode code, const auto&... why) {
    return Fail(code, "pull of rows of key ", wire::ToString((*key)->entry.spec), ", part ", wanted.ref.part,
                ": ", why...);
  };
  if (!(*key)->places) return refuse(ErrorCode::kInvalidArgument, "the key is not row-sparse");
  if (const std::string why = kvstore::InvalidIdsReason(ids, *(*key)->places, wanted.ref.part); !why.empty())
    return refuse(ErrorCode::kInvalidArgument, why);
  if (wanted.slot > 0) PrepareStates(RuleFor(**key, (*part)->version + 1), (*key)->entry.spec, **part);
  const kvstore::RowTable& table = *(*part)->rows;
  if (wanted.slot > table.num_states())
    return refuse(ErrorCode::kNotFound, "state ", wanted.slot, " was asked for, the optimiser has ",
                  table.num_states());
  const size_t bytes =
      ids.size() / sizeof(int64_t) * (wanted.slot == 0 ? table.row_bytes() : table.state_bytes());
  if (bytes > wire::kMostFrameBytes)
    return refuse(ErrorCode::kResourceExhausted, "the rows have ", bytes, " bytes; a frame has at most ",
                  wire::kMostFrameBytes);
  const Waiting waiting = WaitingBeside(**part, sender.rank, sender.request_id);
  if (waiting.pulls >= kMostWaiting)
    return refuse(ErrorCode::kResourceExhausted, kMostWaiting, " pulls wait for it already");
  if (waiting.bytes + ids.size() > kMostWaitingBytes)
    return refuse(ErrorCode::kResourceExhausted, "pulls that wait for it keep ", waiting.bytes,
                  " bytes of row ids already, and ", ids.size(), " more came; at most ", kMostWaitingBytes,
                  " are kept: pull fewer rows before their round has closed");
  return Status::Ok();
}

void Shard::OnPullRows(Time now, const Sender& sender, const wire::Message& message,
                       transport::Network& network) {
  const auto& pull = std::get<wire::PullRows>(message.body);
  Key* key = nullptr;
  Part* part = nullptr;
  for (size_t i = 0; i < pull.parts.size(); ++i) {
    if (Status status = ValidatePullRows(sender, pull.parts[i], message.payload[i].bytes(), &key, &part);
        !status) {
      ++counters_[Counter::kRejected];
      return SendError(sender, status.failure(), network);
    }
  }
  for (size_t i = 0; i < pull.parts.size(); ++i) {
    part = FindPart(pull.parts[i].ref, &key).value();
    ++counters_[Counter::kPulls];
    Waiter waiter{.rank = sender.rank,
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
  Key* key = nullptr;
  const Result<Part*> part = FindPart(wanted.ref, &key);
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

Status Shard::ValidateStoreRows(const wire::Store& store, size_t i, Bytes bytes, const Key& key,
                                Part& part) const {
  const wire::StorePart& stored = store.parts[i];
  const auto refuse = [&](const auto&... why) {
    return Fail(ErrorCode::kInvalidArgument, "key ", wire::ToString(key.entry.spec), ", part ",
                stored.ref.part, ": ", why...);
  };
  if (store.purpose == wire::Store::Purpose::kInit)
    return refuse("the key is row-sparse: its rows begin by themselves");
  if (store.purpose == wire::Store::Purpose::kWeight)
    return refuse("the key is row-sparse: its rows are set one by one");
  const bool states = store.purpose == wire::Store::Purpose::kState;
  if (states) {
    if (Status status = ValidateState(key, part, stored); !status) return status;
  }
  if (states && stored.slot == 0)
    return bytes.empty() ? Status::Ok() : refuse(bytes.size(), " bytes came with a number of updates");
  const size_t each = states ? part.rows->state_bytes() : part.rows->row_bytes();
  const std::string why = kvstore::InvalidRowsReason(bytes, each, *key.places, stored.ref.part);
  return why.empty() ? Status::Ok() : refuse(why);
}

void Shard::StoreRows(Part& part, uint32_t slot, const Frame& frame) {
  kvstore::RowTable& table = *part.rows;
  const size_t each = slot == 0 ? table.row_bytes() : table.state_bytes();
  const kvstore::RowFrame rows(frame.bytes(), each);
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t row = table.Touch(rows.id(i));
    std::memcpy(slot == 0 ? table.Weight(row) : table.State(slot - 1, row), rows.row(i), each);
  }
}

}  // namespace sluice::server
