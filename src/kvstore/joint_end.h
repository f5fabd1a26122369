// The joint end of several operations.
#pragma once

#include <exception>
#include <utility>

#include "base/guarded.h"
#include "tensor/stream.h"

namespace sluice::kvstore {

// Completes an event when as many operations have ended as it was told, with the first error. Thread-safe.
class JointEnd {
 public:
  JointEnd(Event event, size_t operations) : event_(std::move(event)), left_(Left{operations, nullptr}) {}

  const Event& event() const { return event_; }
  void EndOne(const std::exception_ptr& error) {
    const auto [all_done, first] = left_.With([&](Left& left) {
      if (left.error == nullptr) left.error = error;
      return std::pair(--left.operations == 0, left.error);
    });
    if (all_done) event_.Complete(first);
  }

 private:
  struct Left {
    size_t operations;
    std::exception_ptr error;  // the first one
  };

  const Event event_;
  Guarded<Left> left_;
};

}  // namespace sluice::kvstore
