// Where sums are kept on devices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sluice/context.h"

namespace sluice::collective {

// Spreads keys over devices by their bytes.
class LeastLoaded {
 public:
  // Returns the one of `contexts` that has the fewest bytes so far, and adds `bytes` to it.
  Context Place(const std::vector<Context>& contexts, uint64_t bytes) {
    const auto less = [this](const Context& a, const Context& b) {
      return std::pair(bytes_[a], a) < std::pair(bytes_[b], b);
    };
    const Context least = *std::min_element(contexts.begin(), contexts.end(), less);
    bytes_[least] += bytes;
    return least;
  }

 private:
  std::map<Context, uint64_t> bytes_;
};

}  // namespace sluice::collective
