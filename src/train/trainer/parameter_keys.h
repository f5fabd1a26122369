// Makes the parameters of a Trainer keys of its store and brings rank 0's values to every context of
// every worker.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sluice/kvstore.h"
#include "sluice/parameter.h"
#include "train/trainer/local_update.h"
#include "train/trainer/tracked_parameter.h"

namespace sluice::internal {

// Leaves parameters with row-sparse gradients to ParameterTables.
//
// All methods run on the training thread. Keys of parameters whose shapes are known are made by MakeKnown and
// StartKnown, keys of the others within the first forward or SetData, by a callback of
// Parameter::WhenInitialized.
class ParameterKeys {
 public:
  using Parameters = std::vector<std::shared_ptr<nn::Parameter>>;

  // `constants` are statistics, which are copied to all workers once and never pushed. `local_update` is null
  // where the store updates. The store, `local_update` and the elements of `tracked` must stay where they are
  // as long as this object lives.
  ParameterKeys(KVStore& store, std::vector<TrackedParameter>& tracked, Parameters constants,
                LocalUpdate* local_update)
      : store_(store), tracked_(tracked), constants_(std::move(constants)), local_update_(local_update) {}

  // From now on the key of a parameter whose shape is deferred is made once its values exist. Then calls
  // `made` with the parameter, or with null for a constant.
  void AwaitShapes(const std::function<void(TrackedParameter*)>& made);
  // Makes the keys of the parameters whose shapes are known. Returns "" or, on rank 0, why the store has
  // other values of them.
  std::string MakeKnown();
  // Prepares these parameters for steps.
  void StartKnown();

  // Whether every parameter has its key.
  bool complete() const { return awaited_.empty(); }
  // Throws Error(kFailedPrecondition) after a failure to make a key within a forward: later steps would never
  // train the parameter.
  void RequireNoFailure() const;
  // Throws Error(kFailedPrecondition), which says what needs the keys, unless complete().
  void RequireComplete(const char* what) const;
  // Throws Error(kFailedPrecondition): `what` needs the parameter's key, which does not exist.
  [[noreturn]] static void ThrowNoKey(const char* what, const nn::Parameter& parameter);

 private:
  struct Awaited {  // a parameter that has no key yet
    std::shared_ptr<nn::Parameter> parameter;
    std::shared_ptr<const std::function<void()>> callback;  // called once its values exist
  };
  // The parameter's TrackedParameter is null for a constant.
  using Known = std::vector<std::pair<std::shared_ptr<nn::Parameter>, TrackedParameter*>>;

  void MakeLate(const std::shared_ptr<nn::Parameter>& parameter, TrackedParameter* tracked);
  std::string Make(const Parameters& parameters);
  std::string PullWeights(const std::vector<Key>& keys, const std::vector<KVStore::Values>& outs);
  void StartWith(nn::Parameter& parameter, TrackedParameter* tracked);
  void BroadcastWeights(nn::Parameter& parameter);

  KVStore& store_;
  std::vector<TrackedParameter>& tracked_;
  const Parameters constants_;
  LocalUpdate* const local_update_;
  Known known_;  // between MakeKnown and StartKnown
  std::vector<Awaited> awaited_;
};

}  // namespace sluice::internal
