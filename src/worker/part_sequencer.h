// The order of operations on one part. Pulls may go at once (the shard waits for the version they need); a
// push waits until every earlier pull of the part has been answered. That is what lets shards forget old
// versions: docs/design/protocol.md. A weight that is set in no round goes when all that came before has
// ended, and all that came after waits for its end.
#pragma once

#include "worker/operation.h"

namespace sluice::worker {

class PartSequencer {
 public:
  void Append(PartOpPtr op) { ops_.push_back(std::move(op)); }
  // What may go now and has not been released yet, in order; marks it released.
  PartOps Release();
  // Forgets what is finished.
  void Sweep();
  // Sent, unanswered operations that a value answers which came in reply to `request`: those that want it,
  // and the push that it came for, whose caller has given up on the answer.
  PartOps AnsweredBy(const wire::ValuePart& value, const wire::Values& of, uint64_t request) const;
  bool empty() const { return ops_.empty(); }
  const PartOps& ops() const { return ops_; }

  uint64_t known_version = 0;      // the highest that a shard has told
  uint64_t requested_version = 0;  // the highest that a version pull asks for

 private:
  PartOps ops_;
};

}  // namespace sluice::worker
