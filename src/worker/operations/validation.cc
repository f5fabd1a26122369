// Validation of an operation against its keys: whether they are known, whether its round can still close,
// and whether the bytes that are given fit. Nothing here changes a key or an operation.
//
// KeyedOperations asks on the client's loop, before it gives a push its round.
#include "worker/operations/validation.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/strings.h"
#include "wire/codec.h"

namespace sluice::worker {
namespace {

// Returns the bytes of the largest frame of the operation. No part of a key is longer than its first one.
size_t LargestFrame(const Operation& op, const DeclaredKey& key) {
  if (op.rows != nullptr) {
    size_t largest = 0;
    for (const auto* byte_ranges : {&op.rows->sources, &op.rows->destinations})
      for (const ByteRange& byte_range : *byte_ranges) largest = std::max(largest, byte_range.bytes);
    return largest;
  }
  if (key.parts.empty() || op.WantsVersion()) return 0;
  const plan::Part& longest = key.parts.front();
  if (op.IsPush()) return PushedBytes(op, key, longest);
  return static_cast<size_t>(longest.length) * ElementBytes(op, key.entry.spec.dtype);
}

// Returns why the operation does not fit the key, for which it has `source` bytes to send; empty: it fits.
std::string MismatchReason(const Operation& op, const PerKeyOp& key_op, const DeclaredKey& key,
                           size_t source) {
  if (const size_t largest = LargestFrame(op, key); largest > wire::kMostFrameBytes)
    return StrCat("one of its parts takes ", largest, " bytes, and at most ", wire::kMostFrameBytes,
                  " travel in one frame");
  const bool of_rows = op.rows != nullptr;
  const bool any = op.kind == OpKind::kVersion || (op.kind == OpKind::kState && op.slot == 0);
  if (!any && of_rows != key.entry.spec.rows.has_value())
    return of_rows ? "the key is not row-sparse" : "the key is row-sparse";
  if (!key.parts.empty() && key.PartsIn(op.range).empty())
    return StrCat("it is for the parts from ", op.range.begin, " to before ", op.range.end, ", the key has ",
                  key.parts.size());
  if (of_rows || op.WantsVersion()) return {};
  const size_t total =
      static_cast<size_t>(key.entry.spec.shape.size()) * ElementBytes(op, key.entry.spec.dtype);
  const auto unlike = [](size_t given, size_t expected) {
    return given == expected ? "" : StrCat(given, " bytes were given, the key has ", expected);
  };
  if (op.HasPayload()) {
    if (std::string why = unlike(source, op.IsPush() ? PushedBytes(op, key) : total); !why.empty())
      return why;
  }
  return op.WantsValue() ? unlike(key_op.destination.size(), total) : "";
}

Status ValidateOperation(const Operation& op, const PerKeyOp& key_op, const DeclaredKey* key) {
  if (key == nullptr)
    return Fail(ErrorCode::kNotFound, "key number ", key_op.key, " has not been initialised");
  // A push belongs to a later round than the refused one, and cannot close before it.
  if (key->refusal && (op.IsPush() || NeedsRound(op, key_op, key->refused_round))) return *key->refusal;
  const size_t source = op.keys.size() == 1 ? op.source.size() : PushedBytes(op, *key);
  const std::string why = MismatchReason(op, key_op, *key, source);
  if (why.empty()) return Status::Ok();
  return Fail(ErrorCode::kInvalidArgument, Name(op.kind), " of key ", key->name, ": ", why);
}

}  // namespace

size_t ElementBytes(const Operation& op, DType dtype) {
  if (op.kind == OpKind::kState && op.slot == 0) return 0;
  if (op.kind == OpKind::kState || op.slot > 0) return dtype == DType::kFloat64 ? 8 : 4;
  return SizeOf(dtype);
}

size_t PushedBytes(const Operation& op, const DeclaredKey& key, const plan::Part& part) {
  return compression::EncodedBytes(op.compression, key.entry.spec.dtype, static_cast<size_t>(part.length));
}

size_t PushedBytes(const Operation& op, const DeclaredKey& key) {
  const std::span<const plan::Part> parts = key.PartsIn(op.range);
  return std::transform_reduce(parts.begin(), parts.end(), size_t{0}, std::plus<>(),
                               [&](const plan::Part& part) { return PushedBytes(op, key, part); });
}

bool NeedsRound(const Operation& op, const PerKeyOp& key_op, uint64_t round) {
  const bool of_rounds = op.IsPush() || (op.kind == OpKind::kPull && op.slot == 0) ||
                         op.kind == OpKind::kPullRows || op.IsExclusive();
  return of_rounds && key_op.round >= round;
}

Status ValidateOperation(const Operation& op, const DeclaredKeys& keys) {
  for (const PerKeyOp& key_op : op.keys)
    if (Status status = ValidateOperation(op, key_op, keys.Find(key_op.key)); !status.ok()) return status;
  return Status::Ok();
}

}  // namespace sluice::worker
