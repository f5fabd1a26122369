// Where the time of a device goes, by operation.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "stream_watch.h"

namespace sluice::bench {

// Thread safety: all methods.
class Profile final : public StreamWatcher {
 public:
  struct Row {
    std::string what;
    uint64_t calls = 0;
    Duration time{};
  };
  void OnOperation(const Operation& operation) override;
  void Clear();
  std::vector<Row> rows() const;  // the longest first
  // A markdown table: microseconds of each operation per step, and what is left of `elapsed`.
  std::string Table(int steps, Duration elapsed) const;

 private:
  Guarded<std::map<std::string, Row>> rows_;
};

}  // namespace sluice::bench
