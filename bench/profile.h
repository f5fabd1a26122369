// Where the time of a device goes, by operation.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/guarded.h"
#include "stream_watch.h"

namespace sluice::bench {

// Thread safety: all methods.
class Profile final : public StreamWatcher {
 public:
  struct Row {
    std::string what, shape;
    uint64_t calls = 0;
    Duration time{};
    double flops = 0, bytes = 0;
  };
  void OnOperation(const Operation& operation) override;
  void Clear();
  // By operation, or by operation and shape of its first kernel; the longest first.
  std::vector<Row> rows(bool by_shape = false) const;
  // A markdown table: microseconds of each operation per step, and what is left of `elapsed`.
  std::string Table(int steps, Duration elapsed) const;

 private:
  Guarded<std::map<std::pair<std::string, std::string>, Row>> rows_;
};

}  // namespace sluice::bench
