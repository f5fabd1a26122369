// The Trainer: takes the gradients of a model's parameters to a KVStore and brings fresh weights back.
//
//   sluice::Trainer trainer(net.CollectParams(), {.learning_rate = 0.1}, sluice::KVStore::Create("device"));
//   { autograd::RecordScope record; loss = ...; }
//   autograd::Backward({loss});
//   trainer.Step(batch_size);
//
// Thread safety: one caller.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/kvstore.h"
#include "sluice/optimizer.h"
#include "sluice/parameter.h"

namespace sluice {

struct TrainerOptions {
  // Whether the store updates the weights (true), or holds summed gradients and each worker updates its own.
  // Async stores need true.
  bool update_on_kvstore = true;
  // Above 0: where the 2-norm of all gradients together, summed over devices and workers and divided by the
  // batch size, is larger than this, Step and Update shrink them to it, as ClipGlobalNorm (sluice/clip.h). It
  // needs update_on_kvstore = false, since no server holds all keys; Update then waits for the gradients. The
  // first norm that is not finite is logged with the parameter's name.
  double clip_global_norm = 0;
};

class Trainer {
 public:
  // The parameters must be initialised; rank 0's values win, also of those without gradient. Per-parameter
  // lr_mult and wd_mult go into the optimiser's multipliers; a change, the same on all workers, holds from
  // the next step on. So does one of grad_req: what is frozen (kNull) no step touches. Throws
  // Error(kInvalidArgument) for async with update_on_kvstore false and for options that cannot be,
  // Error(kFailedPrecondition) on all workers where the store has other values of these keys than rank 0 (it
  // serves another Trainer: two networks take two stores), and for update_on_kvstore false with a store that
  // updates by itself.
  Trainer(nn::ParameterDict parameters, OptimizerConfig optimizer, std::shared_ptr<KVStore> store,
          TrainerOptions options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Sums gradients over devices and workers, divides by exactly batch_size, updates. A parameter whose
  // gradient no Backward has written since the last step is Error(kFailedPrecondition) naming it, unless
  // ignore_stale: then it is left alone.
  void Step(int64_t batch_size, bool ignore_stale = false);
  // As Step, for an optimiser with normalize_by_samples: the gradients sum over `samples` samples of this
  // worker, 0 included. A context on which no Backward ran (its share of the batch was empty) contributes
  // nothing.
  void StepSamples(uint64_t samples);
  // Before a Step: what no Backward has written since the last one, on any context, becomes 0 and is fresh:
  // what a worker contributes whose share of a batch was empty. StepSamples does it by itself.
  void ZeroStaleGrads();
  // Before Backward: pushes each parameter as soon as its gradient is issued, while backward goes on. The
  // Step or StepSamples that follows must say the same number; it pushes what is left, and gradients that add
  // up (kAdd), of which only it knows that they are complete.
  void PushDuringBackward(int64_t batch_size);
  void PushSamplesDuringBackward(uint64_t samples);

  // The two halves of Step; update_on_kvstore must be false.
  void AllreduceGrads();
  void Update(int64_t batch_size, bool ignore_stale = false);

  double learning_rate() const { return config_.learning_rate; }
  // On every key and server at one round; rank 0's call counts. With update_on_kvstore = false all workers
  // call it alike, or rank 0 alone where clip_global_norm is set.
  void SetLearningRate(double learning_rate);
  // Optimiser states, as KVStore::SaveOptimizerStates; with update_on_kvstore = false the worker that calls
  // writes its own, which are those of all.
  void SaveStates(const std::string& path);
  // Called by all workers; rank 0 reads the file.
  void LoadStates(const std::string& path);
  KVStore& store() { return *store_; }

 private:
  class LocalUpdate;
  struct Tracked {
    bool frozen() const { return parameter->grad_req() == autograd::GradReq::kNull; }
    std::shared_ptr<nn::Parameter> parameter;
    // By context: the arrays whose hooks lead here, and the versions of their gradients at the last step.
    std::vector<NDArray> variables;
    std::vector<uint64_t> seen;
    size_t fired = 0;     // contexts whose gradient is issued
    bool pushed = false;  // in this step, during backward
    // What is handed to the store.
    std::vector<Key> keys;
    std::vector<KVStore::Values> gradients, weights;
  };

  void InitKeys();
  std::string PullWeights(const std::vector<Key>& keys, const std::vector<KVStore::Values>& outs);
  void Arm(const PushOptions& options);
  void OnGradient(size_t index);
  void StepWith(const PushOptions& options, bool ignore_stale);
  void PushPull(size_t index, const PushOptions& options);
  void FollowVariables();
  void FollowVariablesOf(size_t index);
  static void SeeVersions(Tracked& tracked);
  static void FollowArrays(Tracked& tracked);
  static bool IsStale(const Tracked& tracked);  // on any context
  void FollowMultipliers();
  void SetConfig(OptimizerConfig changed);
  void RequireFresh() const;
  void BringWeights();
  void Allreduce(bool stale_too);
  double ScaleOfUpdate(int64_t batch_size);
  void WarnOfNorm(double norm, const std::string& parameter);
  void RequireOwnUpdate(const char* what) const;

  std::vector<Tracked> tracked_;
  std::vector<std::shared_ptr<nn::Parameter>> constants_;  // statistics: brought to all once, never pushed
  OptimizerConfig config_;
  const std::shared_ptr<KVStore> store_;
  const TrainerOptions options_;
  std::optional<PushOptions> armed_;
  NDArray rate_;  // rank 0's learning rate, where Update takes it from there
  bool warned_ = false;
  std::unique_ptr<LocalUpdate> local_update_;
};

}  // namespace sluice
