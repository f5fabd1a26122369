// The order of the operations on one part. A pull may be sent at once, since the shard waits for the version
// that it needs. A push, or anything else that carries a value, waits until every earlier pull of the part
// has been answered; therefore shards need not keep old versions (docs/design/protocol.md). A weight that is
// set outside a round is sent when all earlier operations have ended, and all later ones wait for its end.
#pragma once

#include "worker/operation.h"

namespace sluice::worker {

class PartSequencer {
 public:
  void Append(PartOpPtr op) { ops_.push_back(std::move(op)); }
  // Returns the operations that may be sent now and have not been released yet,
  // in order, and marks them released.
  PartOps Release();
  // Drops finished operations.
  void DropFinished();
  // Returns the sent operations that a value answers which has arrived in reply to `request`: all that want
  // this value, and the push of that request even if it wants no value any more (OpenOperations::DetachPush).
  PartOps AnsweredBy(const wire::ValuePart& value, const wire::Values& of, uint64_t request) const;
  bool empty() const { return ops_.empty(); }
  const PartOps& ops() const { return ops_; }

  uint64_t version = 0;            // the highest version that the shard has reported
  uint64_t requested_version = 0;  // the highest version that a version probe has asked for

 private:
  PartOps ops_;
};

}  // namespace sluice::worker
