// Finds weights of one parameter that the program has written since the Trainer's last pull or own
// update. Every write of an array is counted (tensor/access.h), so a comparison with the count noted then
// finds them. Another pull of the same key from the same store is no change, since the origin of the
// value stays the same (tensor/access.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/inline_vector.h"
#include "sluice/ndarray.h"

namespace sluice::internal {

class StoredWeights {
 public:
  // Notes that the arrays hold what the store or the update has written, or will write by operations that
  // are issued already.
  void Note(const std::vector<NDArray>& weights);
  // Returns the first array that was written after Note, or that Note was not given; null if there is none.
  const NDArray* Changed(const std::vector<NDArray>& weights) const;

 private:
  struct Noted {
    std::shared_ptr<internal::Storage> storage;  // kept alive, so that no other array gets the same address
    uint64_t writes;                             // the count of writes at Note
    std::shared_ptr<const void> origin;          // stands for the store's key; null: not written by a store
  };
  InlineVector<Noted, 1> noted_;  // by context
};

}  // namespace sluice::internal
