// Frames that count as leased although their memory is this process's own; for simulations and tests.
#pragma once

#include <utility>

#include "base/buffer.h"

namespace sluice::transport {

class SimLease final : public Lease {
 public:
  explicit SimLease(std::shared_ptr<const void> owner) : Lease(nullptr), owner_(std::move(owner)) {}

 private:
  const std::shared_ptr<const void> owner_;
};

inline Frame SimLeased(Bytes bytes, std::shared_ptr<const void> owner) {
  return Frame::Leased(bytes, std::make_shared<SimLease>(std::move(owner)));
}

}  // namespace sluice::transport
