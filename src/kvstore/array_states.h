// The states of an array's optimiser beside the array: in memory of the host, or on its card.
#pragma once

#include <memory>
#include <vector>

#include "kvstore/update/states.h"
#include "sluice/ndarray.h"

namespace sluice::kvstore {

// Updates share the arrays that they have begun with. Fit may be called while updates are in progress unless
// the weight moves to another kind of memory; the others expect that none is.
class ArrayStates {
 public:
  // Makes them the states of the optimiser (null: none) for `length` elements of a weight on `context`, as
  // FitStates says. States go along when the weight moves to another kind of memory. Waits for what it writes
  // on a card, and throws its error; then it may be called again.
  void Fit(const Optimizer* optimizer, DType weight, int64_t length, Context context);

  // One of the two is empty.
  const std::vector<std::shared_ptr<Buffer>>& on_host() const { return host_.arrays; }
  const std::vector<NDArray>& on_card() const { return card_; }

  std::vector<Buffer> Copies() const;
  // Sets the states to copies of `values`, as many as there are.
  void Set(const std::vector<Buffer>& values);

 private:
  void FitCard(const Optimizer* optimizer, DType weight, int64_t length, Context context);
  void MoveToHost();

  States host_;
  std::vector<std::string_view> names_;  // the states' names while they lie on a card
  std::vector<NDArray> card_;
};

}  // namespace sluice::kvstore
