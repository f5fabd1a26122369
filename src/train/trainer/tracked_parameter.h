// One parameter that a Trainer updates: its present arrays, whether its gradients are stale, and whether the
// program has written its weights.
//
// A parameter's variables and arrays, and their number, may change between steps (SetGradReq, Cast,
// Reinitialize); the Follow... methods take the present ones. All methods run on the training thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sluice/kvstore.h"
#include "sluice/parameter.h"
#include "train/trainer/stored_weights.h"

namespace sluice::internal {

struct TrackedParameter {
  explicit TrackedParameter(std::shared_ptr<nn::Parameter> of);

  bool frozen() const { return parameter->grad_req() == autograd::GradReq::kNull; }
  bool rests() const { return frozen() || !has_key; }
  bool row_sparse() const { return parameter->row_sparse(); }
  const std::string& name() const { return parameter->name(); }

  // Makes `on_gradient` the gradient hook of the parameter's present variables. A change of its grad_req
  // or type makes new variables of its arrays. Does nothing before it has a key.
  void FollowVariables(const std::function<void()>& on_gradient);
  void RemoveHooks();
  // Notes the present versions of the gradients: from here on they are stale until Backward writes them.
  void SeeVersions();
  bool IsStale() const;  // on any context
  // Sets the stale gradients to 0, and counts them as fresh.
  void ZeroStale();
  // Sets `weights` and `gradients` to the parameter's present arrays; a row-sparse gradient has none.
  void FollowArrays();
  // Returns the row-sparse gradients of all contexts.
  std::vector<RowSparse> RowGradients() const;
  // Copies a weight that the program has written to the other contexts, so that all copies stay equal. If
  // several were written, the first one counts.
  void SpreadWritten() const;

  std::shared_ptr<nn::Parameter> parameter;
  bool has_key = false;   // false: the parameter's shape is not known yet
  bool updating = false;  // whether the current Update updates it
  size_t fired = 0;       // number of contexts whose gradient has been issued
  bool pushed = false;    // whether it was pushed during the backward pass of this step
  // The arguments of calls on the store.
  std::vector<Key> keys;
  std::vector<KVStore::Values> gradients, weights;
  StoredWeights stored;

 private:
  // By context: the arrays that have a gradient hook, and the versions of the gradients at the last step.
  std::vector<NDArray> variables_;
  std::vector<uint64_t> seen_;
};

// Returns whether a step pushes the parameters with dense gradients in one call.
// A store of one process updates the arrays of one call on a card together. Elsewhere each key has a call of
// its own: it goes on as soon as its gradient is there, and with several workers the first layers go first.
bool PushesTogether(const KVStore& store, const std::vector<TrackedParameter>& parameters);

}  // namespace sluice::internal
