// Says what operations need of their keys: sizes, rounds, and whether they can be carried out.
#pragma once

#include "worker/operations/declared_keys.h"

namespace sluice::worker {

// Bytes of one element as the operation sends or receives it, without encoding.
size_t ElementBytes(const Operation& op, DType dtype);
// Bytes that a push of the key, or of one of its parts, sends.
size_t PushedBytes(const Operation& op, const DeclaredKey& key);
size_t PushedBytes(const Operation& op, const DeclaredKey& key, const plan::Part& part);
// Whether the operation on the key cannot be done before `round` has closed.
bool NeedsRound(const Operation& op, const PerKeyOp& key_op, uint64_t round);
// Says why an operation cannot be carried out.
Status ValidateOperation(const Operation& op, const DeclaredKeys& keys);

}  // namespace sluice::worker
