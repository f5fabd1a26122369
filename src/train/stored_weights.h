// Which values of a Trainer's weights are known to it: those that the last pull, or its own update, has
// written. Whoever writes an array counts (tensor/access.h), so that what somebody else has written since is
// found by a comparison. A pull of the same key from the same store, by whomever, sets nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/inline_vector.h"
#include "sluice/trainer.h"

namespace sluice {

class Trainer::StoredWeights {
 public:
  // From here on the arrays of parameter `index` hold what the store, or the update, has written into them or
  // is about to.
  void Note(size_t index, const std::vector<NDArray>& weights);
  // The first of the arrays that somebody has written since, or that was not among those noted; null: none.
  const NDArray* Changed(size_t index, const std::vector<NDArray>& weights) const;

 private:
  struct Noted {
    std::shared_ptr<internal::Storage> storage;  // kept: another array's may not take its place unseen
    uint64_t writes;
    std::shared_ptr<const void> origin;  // the store's key, where the store has written it (tensor/origin.h)
  };
  std::vector<InlineVector<Noted, 1>> noted_;  // by parameter, then by context
};

}  // namespace sluice
