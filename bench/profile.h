// Sums up the time of a device by operation.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/guarded.h"
#include "stream_watch.h"

namespace sluice::bench {

// All methods are thread-safe.
class Profile final : public OperationWatcher {
 public:
  struct Row {
    std::string what, shape;
    uint64_t calls = 0;
    Duration time{};
    double flops = 0, bytes = 0;
  };
  void OnOperation(const Operation& operation) override;
  void Clear();
  // Returns the sums by operation, or by operation and shape of its first kernel; the longest first.
  std::vector<Row> rows(bool by_shape = false) const;
  // Returns a markdown table: the microseconds of each operation per step, and the rest of `elapsed`, which
  // passed between operations.
  std::string Table(int steps, Duration elapsed) const;

 private:
  Guarded<std::map<std::pair<std::string, std::string>, Row>> rows_;
};

}  // namespace sluice::bench
