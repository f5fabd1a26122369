// Operations on keys, from the call to the queues of the shards. OpenOperations has them from there to
// their end.
//
// Thread safety: the client's loop calls everything here.
#pragma once

#include <memory>
#include <optional>

#include "base/function_ref.h"
#include "worker/gradient_stages.h"
#include "worker/operations/open_operations.h"

namespace sluice::worker {

class KeyedOperations {
 public:
  // All arguments must outlive this object.
  KeyedOperations(const membership::MembershipClient& self, DeclaredKeys& keys, ConnectionTable& connections,
                  OpenOperations& open, Tracer& tracer)
      : self_(self), keys_(keys), connections_(connections), open_(open), tracer_(tracer) {}

  // As Start, for an operation that a program has made: gives it the round that it waits for, and a kSet its
  // kind.
  void Submit(Time now, std::shared_ptr<Operation> op, transport::Network& network);
  // Starts the operation, and sends what may leave at once. A push gets its round here; others bring the
  // round that they need. An operation that cannot be carried out ends with an error that says why.
  void Start(Time now, std::shared_ptr<Operation> op, transport::Network& network);
  // Runs `calls`, and sends what they have started at their end, in as few messages as possible.
  void RunAsBatch(Time now, transport::Network& network, FunctionRef<void()> calls);
  // Ends all operations, and from now on every operation that is started, with `failure`.
  void FailAll(const Failure& failure);

 private:
  void CountSet(Operation& op);
  // Appends the parts of the operation to the sequencers. The PartOps lie in `part_ops`.
  using PartOpArray = std::shared_ptr<PartOp[]>;
  void AppendParts(Time now, const std::shared_ptr<Operation>& op, const PartOpArray& part_ops);
  void AppendRows(Time now, const std::shared_ptr<Operation>& op, const PartOpArray& part_ops);
  void Append(PartOpPtr part, std::shared_ptr<Operation> op, DeclaredKey& key, uint32_t index);
  void AddHorizonProbe(Time now, DeclaredKey& key, uint32_t part, uint64_t round);
  void AddVersionProbe(Time now, DeclaredKey& key, uint32_t part, uint64_t round);

  const membership::MembershipClient& self_;
  DeclaredKeys& keys_;
  ConnectionTable& connections_;
  OpenOperations& open_;
  Tracer& tracer_;
  std::optional<Failure> failure_;  // why every operation fails; none: they do not
  bool batching_ = false;           // RunAsBatch is running: Start sends nothing
};

}  // namespace sluice::worker
