// The recorded graph. A node is an operation's result or a variable.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/inline_vector.h"
#include "sluice/autograd.h"
#include "tensor/storage.h"

namespace sluice::internal {

// An array whose values Backward needs as they were when the operation was recorded.
struct Kept {
  std::shared_ptr<Storage> storage;
  uint32_t writes;
  bool Unchanged() const { return storage->writes.load(std::memory_order_relaxed) == writes; }
};

struct AutogradNode {
  virtual ~AutogradNode() = default;

  // --- Recorded operations ---
  InlineVector<std::shared_ptr<AutogradNode>, 8> parents;  // by input; null: no gradient wanted
  // Gradients of the inputs from the output's. out[i] is memory to write to when it is valid (a variable's
  // own gradient), else the operation makes its own; inputs without a parent stay invalid. `grad` is no
  // array where only further results of the operation have one (record.h).
  virtual void Backward(const NDArray& /*grad*/, std::vector<NDArray>& /*out*/) {}
  std::string_view what;  // the operation, where it has
  InlineVector<Kept, 4> kept;
  // Lets go of what Backward needs.
  virtual void Free() {}
  bool freed = false;

  // --- Variables ---
  bool is_variable = false;
  autograd::GradReq req = autograd::GradReq::kNull;
  NDArray grad;
  uint64_t version = 0;
  std::function<void()> hook;

  // --- While Backward runs ---
  int uses_left = 0;
  NDArray pending;  // the sum of what has come
  virtual bool HasPending() const { return pending.valid(); }
  virtual void DropPending() { pending = NDArray(); }
  bool visited = false;
};

}  // namespace sluice::internal
