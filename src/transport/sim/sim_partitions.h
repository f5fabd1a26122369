// Which loops of a simulation cannot reach each other, and until when.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace sluice::transport {

class SimPartitions {
 public:
  // Until `until`, no loop of `a` reaches one of `b`, nor the other way round. Loops are named by their
  // index.
  void Add(std::set<uint32_t> a, std::set<uint32_t> b, Time until) {
    cuts_.push_back({std::move(a), std::move(b), until});
  }
  bool IsCut(uint32_t from, uint32_t to, Time now) {
    std::erase_if(cuts_, [now](const Cut& cut) { return cut.until <= now; });
    return std::any_of(cuts_.begin(), cuts_.end(), [&](const Cut& cut) {
      return (cut.a.contains(from) && cut.b.contains(to)) || (cut.a.contains(to) && cut.b.contains(from));
    });
  }

 private:
  struct Cut {
    std::set<uint32_t> a, b;
    Time until;
  };
  std::vector<Cut> cuts_;
};

}  // namespace sluice::transport
