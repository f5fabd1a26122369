// What messages, reports and state dumps say about an operation.
#pragma once

#include <string>

#include "worker/connection/connection_table.h"
#include "worker/operations/declared_keys.h"

namespace sluice::worker {

// What WaitingFor returns for an operation of which no part has been sent.
inline constexpr const char* kEarlierOperations = "earlier operations";

std::string Describe(const Operation& op, const DeclaredKeys& keys);  // "push of key w, round 3"
// Names what an operation waits for: the last status message of a shard, else the servers that have not
// answered, with what has held the operation up before.
std::string WaitingFor(const Operation& op, const DeclaredKeys& keys, const ConnectionTable& connections);
// Says that the operation has missed its deadline, and what it, or what is before it, waits for.
Failure DeadlineFailure(const Operation& op, const DeclaredKeys& keys, const ConnectionTable& connections);

}  // namespace sluice::worker
