// What counts as lent, of the same process: for simulations and tests.
#pragma once

#include <utility>

#include "base/buffer.h"

namespace sluice::transport {

class SimLoan final : public Loan {
 public:
  explicit SimLoan(std::shared_ptr<const void> owner) : Loan(nullptr), owner_(std::move(owner)) {}

 private:
  const std::shared_ptr<const void> owner_;
};

inline Frame SimLent(Bytes bytes, std::shared_ptr<const void> owner) {
  return Frame::Borrowed(bytes, std::make_shared<SimLoan>(std::move(owner)));
}

}  // namespace sluice::transport
