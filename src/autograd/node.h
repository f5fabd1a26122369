// The recorded graph. A node stands for the result of an operation or for a variable.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/inline_vector.h"
#include "sluice/autograd.h"
#include "sluice/row_sparse.h"
#include "tensor/storage.h"

namespace sluice::internal {

// An array whose values Backward needs as they were when the operation was recorded. It is unchanged while
// `writes` equals the storage's own count.
struct Kept {
  std::shared_ptr<Storage> storage;
  uint32_t writes;
  bool Unchanged() const { return storage->writes.load(std::memory_order_relaxed) == writes; }
};

// The gradient of a variable that is row-sparse: the sum of rows.
struct RowGradient {
  std::vector<RowSparse> rows;
  std::vector<RowSparse> arriving;  // those of the Backward under way
  bool arrived = false;             // whether an operation has given its rows, if only none
};

struct AutogradNode {
  virtual ~AutogradNode() = default;

  // --- Recorded operations ---
  InlineVector<std::shared_ptr<AutogradNode>, 8> parents;  // by input; null where no gradient is wanted
  // Computes the gradients of the inputs from `grad`, the gradient of the output. A valid out[i] is memory to
  // write to (a variable's own gradient); elsewhere the operation sets out[i] to an array of its own. Inputs
  // without a parent stay invalid. `grad` is no array when only further results of the operation have a
  // gradient (record.h).
  virtual void Backward(const NDArray& /*grad*/, std::vector<NDArray>& /*out*/) {}
  std::string_view what;  // the operation's name, for messages about `kept`
  InlineVector<Kept, 4> kept;
  // Releases what Backward needs; the node cannot run again.
  virtual void Free() {}
  bool freed = false;

  // --- Variables ---
  bool is_variable = false;
  autograd::GradReq req = autograd::GradReq::kNull;
  NDArray grad;
  std::unique_ptr<RowGradient> row_grad;  // in place of `grad` where the gradient is row-sparse
  uint64_t version = 0;
  std::function<void()> hook;

  // --- While Backward runs ---
  int uses_left = 0;  // reached nodes that use this one and have not run yet
  NDArray pending;    // the sum of the gradients that have arrived
  virtual bool HasPending() const { return pending.valid(); }
  virtual void DropPending() {
    pending = NDArray();
    if (row_grad == nullptr) return;
    row_grad->arriving.clear();
    row_grad->arrived = false;
  }
  bool visited = false;
};

}  // namespace sluice::internal
