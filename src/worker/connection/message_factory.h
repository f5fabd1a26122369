// Makes the messages of this worker and numbers its requests. All requests of a client share one sequence,
// so that the number of an answer says which request it belongs to, whoever sent it.
#pragma once

#include <utility>

#include "kvstore/membership/membership_client.h"

namespace sluice::worker {

class MessageFactory {
 public:
  // `self` must outlive this object.
  explicit MessageFactory(const membership::MembershipClient& self) : self_(self) {}

  const membership::MembershipClient& self() const { return self_; }
  // A message with the fields of the envelope filled in.
  wire::Message Make(wire::Body body, uint64_t id) const { return self_.Make(std::move(body), id); }
  // The number of the next request; TakeId also uses it up.
  uint64_t next_id() const { return next_id_; }
  uint64_t TakeId() { return next_id_++; }

 private:
  const membership::MembershipClient& self_;
  uint64_t next_id_ = 1;
};

}  // namespace sluice::worker
