// An event that a test completes, so that the test and not the machine determines the order of operations.
#pragma once

#include "sluice/error.h"
#include "tensor/stream.h"

namespace sluice {

class Gate {
 public:
  Gate() = default;
  ~Gate() { Open(); }  // releases the stream if the test ends early
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  const Event& event() const { return event_; }
  void Open() {
    if (!event_.Done()) event_.Complete();
  }
  void Fail(const std::string& why) {
    event_.Complete(std::make_exception_ptr(Error(ErrorCode::kUnavailable, why)));
  }

 private:
  const Event event_ = Event::Make("the gate");
};

}  // namespace sluice
