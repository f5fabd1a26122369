// The Trainer pushes the gradients of a model's parameters to a KVStore and pulls the updated weights.
//
//   sluice::Trainer trainer(net.CollectParams(), {.learning_rate = 0.1}, sluice::KVStore::Create("device"));
//   { autograd::RecordScope record; loss = ...; }
//   autograd::Backward({loss});
//   trainer.Step(batch_size);
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/kvstore.h"
#include "sluice/optimizer.h"
#include "sluice/parameter.h"

namespace sluice {

namespace internal {
class GradientSums;
class LocalUpdate;
class ParameterKeys;
class ParameterTables;
struct TrackedParameter;
class UpdateCount;
}  // namespace internal

struct TrainerOptions {
  // If true, the store updates the weights. If false, the store sums the gradients and each worker updates
  // its own weights. Async stores need true.
  bool update_on_kvstore = true;
  // If above 0, the bound of the 2-norm of all gradients together, summed over devices and workers and
  // divided by the batch size. Where the norm is larger, Step and Update scale the gradients down to it, as
  // ClipGlobalNorm does (sluice/clip.h). The bound needs update_on_kvstore = false, since no server holds all
  // keys; Update then waits for the gradients. The first norm that is not finite is logged with the name of
  // the parameter that caused it.
  double clip_global_norm = 0;
};

class Trainer {
 public:
  // Creates a key of `store` for each parameter and copies rank 0's values to every context of every worker,
  // also those of parameters without a gradient. The constructor waits for all workers. If `store` is null
  // (Gluon's kvstore=None), this process trains alone: gradients are summed over its devices and weights are
  // updated as with KVStore::Create("device").
  //
  // The parameters must be initialised, but their shapes may be deferred. The forward that fills in a shape,
  // or Parameter::SetData, then creates the key and brings rank 0's values before a layer uses them. All
  // workers must run that forward, in which they wait for rank 0's values; with update_on_kvstore = false
  // these values come as a sum over all workers, so the workers wait for each other. Before that forward, a
  // step (unless it has ignore_stale) and saving or loading states throw Error(kFailedPrecondition). The
  // forward itself throws it on rank 0 when a sync store has other values of the key.
  //
  // Weights may be written between steps: by Parameter::SetData, LoadParameters, or in place. The next step
  // goes on from them, with the states of the optimiser as they are. If a parameter has several contexts, the
  // first one that was written counts. With update_on_kvstore the store has a copy of its own, which the step
  // then sets (KVStore::Set), so that in dist stores worker 0's weights count: write them on worker 0 or on
  // all workers, between the same two steps. Weights that are written on another worker alone make one of
  // that worker's next calls throw Error(kFailedPrecondition), in async stores Error(kDeadlineExceeded). With
  // update_on_kvstore = false each worker has weights of its own: write them on all workers. The latter holds
  // in any case for parameters that no step updates, which are frozen ones and statistics.
  //
  // A parameter with a row-sparse gradient (EmbeddingOptions::sparse_grad) becomes a row-sparse key. Only the
  // rows of a step's ids are pushed and updated. With update_on_kvstore each array has only the rows that its
  // layers have read since, also of rank 0's first values. Call ParameterRows::FetchAll before you read or
  // change the weights yourself, and before you destroy the Trainer; SaveParameters and Fit call it. Weights
  // that are written on another worker than rank 0 alone are lost without an error. With update_on_kvstore =
  // false every worker takes the sums of all workers' rows, which costs three round trips a step: Step and
  // AllreduceGrads wait for the sums, Step and Update for the gradients. Row-sparse keys take no optimiser
  // that needs a key's norm (LAMB).
  //
  // The lr_mult and wd_mult of the parameters become multipliers of the optimiser. A change of them, which
  // has to be the same on all workers, takes effect at the next step. So does a change of grad_req; no step
  // updates a frozen parameter (kNull).
  //
  // The constructor throws Error(kInvalidArgument) for invalid options and for update_on_kvstore = false with
  // an async store. It throws Error(kFailedPrecondition) for a parameter with a row-sparse gradient whose
  // shape is deferred, for update_on_kvstore = false with a store that updates by itself, and, on all
  // workers, when the store has other values of these keys than rank 0: then the store serves another Trainer
  // already, and each network needs a store of its own.
  Trainer(nn::ParameterDict parameters, OptimizerConfig optimizer, std::shared_ptr<KVStore> store = nullptr,
          TrainerOptions options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Sums the gradients over devices and workers, divides the sums by exactly batch_size and updates the
  // weights. If no Backward has written the gradient of a parameter since the last step, Step throws
  // Error(kFailedPrecondition), which names the parameter; with ignore_stale it skips the parameter instead.
  // With update_on_kvstore = false the gradients hold the sum afterwards. In a model with float16 parameters
  // they hold the sum / 2^k, which is finite in float16 wherever the mean is; 2^k is the least power of two
  // that is not below the smaller of batch_size and the number of devices of all workers.
  void Step(int64_t batch_size, bool ignore_stale = false);
  // As Step, for an optimiser with normalize_by_samples. The gradients of this worker sum over `samples`
  // samples, which may be 0. A context on which no Backward ran, because its share of the batch was empty,
  // contributes nothing.
  void StepSamples(uint64_t samples);
  // Sets every gradient that no Backward has written since the last step, on any context, to 0, and counts it
  // as fresh. Call it before Step when this worker's share of a batch may be empty; StepSamples calls it.
  void ZeroStaleGrads();
  // Called before Backward, these make it push each parameter as soon as its gradient has been issued, while
  // the rest of the backward pass is under way. The Step or StepSamples that follows must be given the same
  // number. It pushes the remaining gradients, and those that accumulate (kAdd), which are not known to be
  // complete before, but by a Pipeline. With update_on_kvstore, Step throws Error(kFailedPrecondition) when a
  // weight was written after its gradient had been pushed.
  void PushDuringBackward(int64_t batch_size);
  void PushSamplesDuringBackward(uint64_t samples);

  // The two halves of Step; update_on_kvstore must be false. Between them the gradients hold the sum /
  // divisor; Update multiplies by the divisor again. Without a divisor they hold the sum. A model with
  // float16 parameters needs one, since a sum beyond 65504 is infinite: a power of two that is not below
  // the number of all workers' devices, as Step takes by itself. All workers give the same; after
  // PushDuringBackward the divisor is that of Step. Throws Error(kInvalidArgument) unless the divisor is
  // positive and finite, and where a float16 sum needs one.
  void AllreduceGrads(std::optional<double> divisor = std::nullopt);
  void Update(int64_t batch_size, bool ignore_stale = false);

  // Returns the learning rate of the next step, before lr_mult. The schedule takes it from the number of
  // updates that the first parameter with a gradient has had, including those of loaded states. In async
  // stores, where each worker's push is an update, the rate is that after as many steps of all workers as
  // this worker has made.
  double learning_rate() const;
  // Returns the rate from which the schedule starts.
  double base_learning_rate() const { return config_.learning_rate; }
  // Sets the base rate, at the same round on every key and server; rank 0's call counts. With
  // update_on_kvstore = false all workers must make the same call, or, where clip_global_norm is set, rank 0
  // alone.
  void SetLearningRate(double learning_rate);
  // Writes the optimiser states, as KVStore::SaveOptimizerStates does. With update_on_kvstore = false the
  // calling worker writes its own states, which are equal on all workers.
  void SaveStates(const std::string& path);
  // Reads the optimiser states. All workers call it and wait for each other; rank 0 reads the file, and if it
  // fails, all workers throw.
  void LoadStates(const std::string& path);
  KVStore& store() { return *store_; }  // the Trainer's own where it was given none

 private:
  void BeginStep();
  void OnKeyMade(internal::TrackedParameter* tracked);
  void FollowVariables(size_t index);
  void OnGradient(size_t index);
  void Arm(const PushOptions& options);
  void PushPull(size_t index, const PushOptions& options);
  void PushPullTogether(std::span<const size_t> indices, const PushOptions& options);
  void StepWith(const PushOptions& options, bool ignore_stale);
  void Allreduce(bool stale_too, double divisor);
  void FollowMultipliers();
  void SetConfig(OptimizerConfig changed);
  void RequireFresh() const;
  void RequireUnwritten();
  void RequireOwnUpdate(const char* what) const;
  bool UpdateHasOnePush() const;

  const std::shared_ptr<KVStore> store_;
  const TrainerOptions options_;
  OptimizerConfig config_;  // every field is set
  std::vector<internal::TrackedParameter> tracked_;
  std::unique_ptr<internal::LocalUpdate> local_update_;  // null with update_on_kvstore
  std::unique_ptr<internal::ParameterKeys> keys_;
  std::unique_ptr<internal::ParameterTables> tables_;
  std::unique_ptr<internal::GradientSums> sums_;
  std::unique_ptr<internal::UpdateCount> updates_;
  std::unique_ptr<const Optimizer> rates_;  // used for its learning rate only
  std::optional<PushOptions> armed_;        // with which OnGradient pushes until the next step
};

}  // namespace sluice
