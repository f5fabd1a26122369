// Decides whether a part of a worker's message may act on the shard's keys: one function for each kind of
// message. Invariants: the functions own nothing, and change nothing of the shard's keys but this: states
// that a message asks for, or brings, are made (PrepareStates), since their number is the optimiser's. Shard
// calls them on its loop: for every part of a push, a store or a pull of rows before it acts on the first,
// and for each part of a pull just before it acts on it. It calls CopyLeasedFrames before all.
#include "server/receive/validate.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "kvstore/rows/row_frame.h"
#include "wire/codec.h"

namespace sluice::server {
namespace {

// Bounds for the pulls that wait on one part; far more than workers have under way.
constexpr size_t kMostWaiting = 4096;                            // pulls
constexpr size_t kMostWaitingBytes = 8 * wire::kMostFrameBytes;  // bytes of their ids

struct Waiting {
  size_t pulls = 0, bytes = 0;  // `bytes`: of the ids that are kept
};
// Counts the pulls that wait on the part, without those of the given request, which its repeat replaces.
Waiting WaitingBeside(const ShardPart& part, uint32_t rank, uint64_t request_id) {
  Waiting waiting;
  for (const PendingRequest& pending : part.pending) {
    if (pending.rank == rank && pending.request_id == request_id) continue;
    ++waiting.pulls;
    waiting.bytes += pending.ids.size();
  }
  return waiting;
}

std::string InvalidRowPushReason(const wire::Push& push, size_t i, Bytes bytes, const ShardKey& key) {
  if (push.compression != Compression::kNone) return StrCat("rows do not travel as ", Name(push.compression));
  if (push.parts[i].want_value) return "a push of rows is answered without a value";
  const size_t row_bytes = static_cast<size_t>(key.places->row_elements) * SizeOf(key.entry.spec.dtype);
  return kvstore::InvalidRowsReason(bytes, row_bytes, *key.places, push.parts[i].ref.part);
}

// Worker 0 sets the weight of the version that its last push has made, so that version must be available.
Status ValidateSet(uint32_t rank, const ShardKey& key, const ShardPart& part, uint64_t version) {
  const auto refuse = [&](const auto&... why) {
    return Fail(ErrorCode::kFailedPrecondition, "set of key ", wire::ToString(key.entry.spec), ": ", why...);
  };
  if (rank != 0) return refuse("worker ", rank, " wants to, but worker 0's weights count");
  if (!part.initialised) return refuse("the key has not been initialised");
  if (const uint64_t there = key.VersionFor(part, rank); version > there)
    return refuse("version ", version, " is not there, the last one is ", there);
  return Status::Ok();
}

Status ValidateState(const ShardKeys& keys, const ShardKey& key, ShardPart& part,
                     const wire::StorePart& state) {
  const UpdateRule& rule = keys.RuleFor(key, part.version + 1);
  PrepareStates(rule, key.entry.spec, part);
  const auto refuse = [&](const auto&... why) {
    return Fail(ErrorCode::kInvalidArgument, "key ", wire::ToString(key.entry.spec), ": ", why...);
  };
  if (!rule.optimizer || state.slot > part.num_states()) {
    return refuse("optimiser state ", state.slot, " was to be loaded, but its optimiser has ",
                  part.num_states(), "; call SetOptimizer first");
  }
  if (state.version > kvstore::kMaxUpdates) {
    return refuse("the state's number of updates is ", state.version, "; it must be at most ",
                  kvstore::kMaxUpdates);
  }
  return Status::Ok();
}

Status ValidateStoreRows(const ShardKeys& keys, const wire::Store& store, size_t i, Bytes bytes,
                         const ShardKey& key, ShardPart& part) {
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
    if (Status status = ValidateState(keys, key, part, stored); !status) return status;
  }
  if (states && stored.slot == 0)
    return bytes.empty() ? Status::Ok() : refuse(bytes.size(), " bytes came with a number of updates");
  const size_t each = states ? part.rows->state_bytes() : part.rows->row_bytes();
  const std::string why = kvstore::InvalidRowsReason(bytes, each, *key.places, stored.ref.part);
  return why.empty() ? Status::Ok() : refuse(why);
}

}  // namespace

size_t CopyLeasedFrames(const ShardKeys& keys, wire::Message* message) {
  const auto* push = std::get_if<wire::Push>(&message->body);
  const auto adds_up = [&](size_t i) {
    const ShardKey* key = keys.Find(push->parts[i].ref.key);
    return push->compression == Compression::kNone && key != nullptr && !key->places;
  };
  const auto* store = std::get_if<wire::Store>(&message->body);
  const auto is_stored = [&](size_t i) {
    const ShardKey* key = keys.Find(store->parts[i].ref.key);
    return key != nullptr && !key->places;
  };
  size_t copied = 0;
  for (size_t i = 0; i < message->payload.size(); ++i) {
    Frame& frame = message->payload[i];
    if (!frame.leased() || (push != nullptr && adds_up(i)) || (store != nullptr && is_stored(i))) continue;
    frame = frame.ToOwned();
    copied += frame.size();
  }
  return copied;
}

Status ValidatePush(const ShardKeys& keys, const wire::Push& push, size_t i, Bytes bytes, ShardKey** key,
                    ShardPart** part) {
  const Result<ShardPart*> found = keys.FindPart(push.parts[i].ref, key);
  if (!found) return found.failure();
  *part = found.value();
  const wire::KeySpec& spec = (*key)->entry.spec;
  const auto refuse = [&](ErrorCode code, const auto&... why) {
    return Fail(code, "push of key ", wire::ToString(spec), ", part ", push.parts[i].ref.part, ": ", why...);
  };
  if (!(*part)->initialised)
    return refuse(ErrorCode::kFailedPrecondition, "the key has not been initialised");
  const std::string why = (*key)->places
                              ? InvalidRowPushReason(push, i, bytes, **key)
                              : compression::InvalidReason({bytes.data(), bytes.size(), push.compression},
                                                           spec.dtype, (*part)->length);
  if (!why.empty()) return refuse(ErrorCode::kInvalidArgument, why);
  if (!compression::CanEncodeWeights(push.values, spec.dtype)) {
    return refuse(ErrorCode::kInvalidArgument, Name(spec.dtype), " weights do not travel as ",
                  Name(push.values));
  }
  if (push.parts[i].round == 0) return refuse(ErrorCode::kInvalidArgument, "rounds count from 1");
  if (!(push.divisor > 0) || std::isinf(push.divisor))
    return refuse(ErrorCode::kInvalidArgument, "the divisor is ", push.divisor);
  if (!IsFloating(spec.dtype) && push.divisor != 1) {
    return refuse(ErrorCode::kInvalidArgument, "a ", Name(spec.dtype), " key cannot be divided by ",
                  push.divisor);
  }
  const bool scales = spec.dtype == DType::kFloat16 && push.compression == Compression::kNone;
  if (push.exponent > (scales ? wire::kMostExponent : 0)) {
    return refuse(ErrorCode::kInvalidArgument, "the exponent of a ", Name(spec.dtype), " gradient as ",
                  Name(push.compression), " is ", push.exponent);
  }
  const UpdateRule& rule = keys.RuleFor(**key, push.parts[i].round);
  if ((*key)->async() && !rule.optimizer && !rule.updater) {
    return refuse(
        ErrorCode::kFailedPrecondition,
        "an async store without optimiser would assign whatever comes last; call SetOptimizer first");
  }
  return Status::Ok();
}

Status ValidatePull(const ShardKeys& keys, wire::Pull::Want want, Compression as,
                    const wire::PullPart& wanted, ShardKey** key, ShardPart** part) {
  const Result<ShardPart*> found = keys.FindPart(wanted.ref, key);
  if (!found) return found.failure();
  *part = found.value();
  const wire::KeySpec& spec = (*key)->entry.spec;
  if ((*key)->places && want != wire::Pull::Want::kVersion) {
    return Fail(ErrorCode::kInvalidArgument, "key ", wire::ToString(spec),
                " is row-sparse: its rows are pulled, never all of it");
  }
  // States exist from the first update on; before it they are created here, as zeros.
  if (wanted.slot > 0) PrepareStates(keys.RuleFor(**key, (*part)->version + 1), spec, **part);
  // kVersion for slot 1 asks for the number of updates, which a part has even without states. It is asked
  // for with a slot of its own because pending requests are kept by slot.
  const size_t least = want == wire::Pull::Want::kVersion ? 1 : 0;
  if (wanted.slot > std::max((*part)->num_states(), least)) {
    return Fail(ErrorCode::kNotFound, "key ", wire::ToString(spec), " has ", (*part)->num_states(),
                " optimiser states, state ", wanted.slot, " was asked for");
  }
  if (!compression::CanEncodeWeights(as, spec.dtype)) {
    return Fail(ErrorCode::kInvalidArgument, "pull of key ", wire::ToString(spec), ": ", Name(spec.dtype),
                " weights do not travel as ", Name(as));
  }
  return Status::Ok();
}

Status ValidatePullRows(const ShardKeys& keys, uint32_t rank, uint64_t request_id,
                        const wire::RowsPart& wanted, Bytes ids, ShardKey** key, ShardPart** part) {
  const Result<ShardPart*> found = keys.FindPart(wanted.ref, key);
  if (!found) return found.failure();
  *part = found.value();
  const auto refuse = [&](ErrorCode code, const auto&... why) {
    return Fail(code, "pull of rows of key ", wire::ToString((*key)->entry.spec), ", part ", wanted.ref.part,
                ": ", why...);
  };
  if (!(*key)->places) return refuse(ErrorCode::kInvalidArgument, "the key is not row-sparse");
  if (const std::string why = kvstore::InvalidIdsReason(ids, *(*key)->places, wanted.ref.part); !why.empty())
    return refuse(ErrorCode::kInvalidArgument, why);
  if (wanted.slot > 0) PrepareStates(keys.RuleFor(**key, (*part)->version + 1), (*key)->entry.spec, **part);
  const kvstore::RowTable& table = *(*part)->rows;
  if (wanted.slot > table.num_states())
    return refuse(ErrorCode::kNotFound, "state ", wanted.slot, " was asked for, the optimiser has ",
                  table.num_states());
  const size_t bytes =
      ids.size() / sizeof(int64_t) * (wanted.slot == 0 ? table.row_bytes() : table.state_bytes());
  if (bytes > wire::kMostFrameBytes)
    return refuse(ErrorCode::kResourceExhausted, "the rows have ", bytes, " bytes; a frame has at most ",
                  wire::kMostFrameBytes);
  const Waiting waiting = WaitingBeside(**part, rank, request_id);
  if (waiting.pulls >= kMostWaiting)
    return refuse(ErrorCode::kResourceExhausted, kMostWaiting, " pulls wait for it already");
  if (waiting.bytes + ids.size() > kMostWaitingBytes)
    return refuse(ErrorCode::kResourceExhausted, "pulls that wait for it keep ", waiting.bytes,
                  " bytes of row ids already, and ", ids.size(), " more came; at most ", kMostWaitingBytes,
                  " are kept: pull fewer rows before their round has closed");
  return Status::Ok();
}

Result<ShardPart*> ValidateGetRowIds(const ShardKeys& keys, const wire::GetRowIds& wanted) {
  ShardKey* key = nullptr;
  Result<ShardPart*> part = keys.FindPart(wanted.ref, &key);
  if (!part || key->places) return part;
  return Fail(ErrorCode::kInvalidArgument, "key ", wire::ToString(key->entry.spec),
              " is not row-sparse: it has no list of rows");
}

Status ValidateStore(const ShardKeys& keys, uint32_t rank, const wire::Store& store, size_t i, Bytes bytes,
                     ShardKey** key, ShardPart** part) {
  const wire::StorePart& stored = store.parts[i];
  const Result<ShardPart*> found = keys.FindPart(stored.ref, key);
  if (!found) return found.failure();
  *part = found.value();
  const wire::KeySpec& spec = (*key)->entry.spec;
  if ((*key)->places) return ValidateStoreRows(keys, store, i, bytes, **key, **part);
  if (store.purpose == wire::Store::Purpose::kRows) {
    return Fail(ErrorCode::kInvalidArgument, "key ", wire::ToString(spec),
                " is not row-sparse, but rows came");
  }
  const bool sets = store.purpose == wire::Store::Purpose::kWeight;
  const bool init = store.purpose == wire::Store::Purpose::kInit;
  const size_t expected = init || sets       ? (*part)->length * SizeOf(spec.dtype)
                          : stored.slot == 0 ? 0
                                             : kvstore::SlotBytes(spec.dtype, (*part)->length);
  if (bytes.size() != expected) {
    return Fail(ErrorCode::kInvalidArgument, "key ", wire::ToString(spec), ", part ", stored.ref.part, ": ",
                bytes.size(), " bytes came to be stored, the part has ", expected);
  }
  if (sets) return ValidateSet(rank, **key, **part, stored.version);
  return init ? Status::Ok() : ValidateState(keys, **key, **part, stored);
}

}  // namespace sluice::server
