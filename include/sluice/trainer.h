// The Trainer: takes the gradients of a model's parameters to a KVStore and brings fresh weights back.
//
//   sluice::Trainer trainer(net.CollectParams(), {.learning_rate = 0.1}, sluice::KVStore::Create("device"));
//   { autograd::RecordScope record; loss = ...; }
//   autograd::Backward({loss});
//   trainer.Step(batch_size);
//
// Thread safety: one caller.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/error.h"
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
  // Without a store, as Gluon's kvstore=None: this process trains alone, and the sums over its devices are
  // taken and the weights updated as with KVStore::Create("device").
  //
  // Weights may be written between steps: by Parameter::SetData, LoadParameters, or in place. The next step
  // goes on from them, with the optimiser's states as they are. Of several contexts the first one that was
  // written counts. With update_on_kvstore the store has a copy of its own, which the step then sets
  // (KVStore::Set): in dist stores worker 0's weights count. Write them on worker 0 or on all workers,
  // between the same two steps; weights written on another worker alone are Error(kFailedPrecondition), of
  // async stores kDeadlineExceeded, in one of that worker's next calls. With update_on_kvstore = false each
  // worker has its own: write them on all. So it is with parameters that no step touches, frozen ones and
  // statistics.
  //
  // The parameters must be initialised; rank 0's values win, also of those without gradient. A shape may be
  // deferred: the forward that fills it in, or SetData, makes the key and brings rank 0's values before a
  // layer uses them. All workers must run that forward, in which they wait for rank 0's values; with
  // update_on_kvstore = false, where those are a sum, they wait for each other. A step before it (but for
  // ignore_stale), and states saved or loaded before it, are Error(kFailedPrecondition); so is, on rank 0, a
  // key of which a sync store has other values.
  //
  // Per-parameter lr_mult and wd_mult go into the optimiser's multipliers; a change, the same on all workers,
  // holds from the next step on. So does one of grad_req: what is frozen (kNull) no step touches. Throws
  // Error(kInvalidArgument) for async with update_on_kvstore false and for options that cannot be,
  // Error(kFailedPrecondition) on all workers where the store has other values of these keys than rank 0 (it
  // serves another Trainer: two networks take two stores), and for update_on_kvstore false with a store that
  // updates by itself.
  Trainer(nn::ParameterDict parameters, OptimizerConfig optimizer, std::shared_ptr<KVStore> store = nullptr,
          TrainerOptions options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Sums gradients over devices and workers, divides by exactly batch_size, updates. A parameter whose
  // gradient no Backward has written since the last step is Error(kFailedPrecondition) naming it, unless
  // ignore_stale: then it is left alone. With update_on_kvstore = false gradients hold the sum afterwards; in
  // a model with float16 parameters the sum / 2^k, which is a finite float16 number where the mean is one:
  // 2^k is the least power of two that is not below the number of devices of all workers, or not below
  // batch_size.
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
  // up (kAdd), of which only it knows that they are complete. With update_on_kvstore a weight that is written
  // after its gradient was pushed makes the Step Error(kFailedPrecondition).
  void PushDuringBackward(int64_t batch_size);
  void PushSamplesDuringBackward(uint64_t samples);

  // The two halves of Step; update_on_kvstore must be false. Gradients hold the sum in between, whose float16
  // numbers are infinite beyond 65504.
  void AllreduceGrads();
  void Update(int64_t batch_size, bool ignore_stale = false);

  // The rate that the next step uses, before lr_mult: the schedule's after as many updates as the first
  // parameter with a gradient has had, those of loaded states included. Async stores, where each worker's
  // push is an update: as if all workers had made as many steps as this one.
  double learning_rate() const;
  // What the schedule starts from.
  double base_learning_rate() const { return config_.learning_rate; }
  // Sets the base rate. On every key and server at one round; rank 0's call counts. With update_on_kvstore =
  // false all workers call it alike, or rank 0 alone where clip_global_norm is set.
  void SetLearningRate(double learning_rate);
  // Optimiser states, as KVStore::SaveOptimizerStates; with update_on_kvstore = false the worker that calls
  // writes its own, which are those of all.
  void SaveStates(const std::string& path);
  // Called by all workers, which wait for each other; rank 0 reads the file, and its error is everybody's.
  void LoadStates(const std::string& path);
  KVStore& store() { return *store_; }  // its own, where it was made without one

 private:
  class LocalUpdate;
  class StoredWeights;
  struct Tracked {
    bool frozen() const { return parameter->grad_req() == autograd::GradReq::kNull; }
    bool rests() const { return frozen() || !has_key; }
    std::shared_ptr<nn::Parameter> parameter;
    bool has_key = false;   // false: its shape is not known yet
    bool updating = false;  // in this Update
    // By context: the arrays whose hooks lead here, and the versions of their gradients at the last step.
    std::vector<NDArray> variables;
    std::vector<uint64_t> seen;
    size_t fired = 0;     // contexts whose gradient is issued
    bool pushed = false;  // in this step, during backward
    // What is handed to the store.
    std::vector<Key> keys;
    std::vector<KVStore::Values> gradients, weights;
  };

  struct Awaited {  // a parameter whose shape is not known yet
    std::shared_ptr<nn::Parameter> parameter;
    std::shared_ptr<const std::function<void()>> callback;  // once it is
  };
  using Parameters = std::vector<std::shared_ptr<nn::Parameter>>;
  void AwaitShapes();
  void InitKeys();
  void InitLate(const std::shared_ptr<nn::Parameter>& parameter, Tracked* tracked);
  std::string MakeKeys(const Parameters& parameters);
  void StartWith(nn::Parameter& parameter, Tracked* tracked);
  std::string PullWeights(const std::vector<Key>& keys, const std::vector<KVStore::Values>& outs);
  void RequireNoFailedForward() const;
  void RequireKeys(const char* what) const;
  [[noreturn]] static void ThrowNoKey(const char* what, const nn::Parameter& parameter);
  void Arm(const PushOptions& options);
  void OnGradient(size_t index);
  void StepWith(const PushOptions& options, bool ignore_stale);
  void PushPull(size_t index, const PushOptions& options);
  void BeginStep();
  void FollowVariables();
  void FollowVariablesOf(size_t index);
  static void SeeVersions(Tracked& tracked);
  static void FollowArrays(Tracked& tracked);
  static bool IsStale(const Tracked& tracked);  // on any context
  void FollowMultipliers();
  void SetConfig(OptimizerConfig changed);
  void RequireFresh() const;
  void RequireUnwritten() const;
  void RequireSums();
  void BringWeights(nn::Parameter& parameter);
  void Allreduce(bool stale_too, double divisor);
  double DivisorOfSums(int64_t batch_size) const;
  double ScaleOfUpdate(int64_t batch_size);
  void SpreadWritten(size_t index) const;
  void WarnOfNorm(double norm, const std::string& parameter);
  void RequireOwnUpdate(const char* what) const;
  bool UpdatesAlone() const;
  int64_t UpdatesSoFar() const;
  void AgreeOnUpdates(const std::optional<Error>& failure);

  std::vector<Tracked> tracked_;
  Parameters constants_;  // statistics: brought to all once, never pushed
  std::vector<Awaited> awaited_;
  OptimizerConfig config_;  // Resolved
  const std::shared_ptr<KVStore> store_;
  const TrainerOptions options_;
  std::optional<PushOptions> armed_;
  NDArray rate_;             // rank 0's learning rate, where Update takes it from there
  int64_t devices_ = 1;      // of all workers
  double sums_divisor_ = 1;  // by which the gradients are less than their sum
  bool warned_ = false;
  std::unique_ptr<LocalUpdate> local_update_;
  std::unique_ptr<StoredWeights> stored_;
  std::unique_ptr<const Optimizer> rates_;  // for what it says of the learning rate
  int64_t updates_ = 0;                     // of the first parameter with a gradient
};

}  // namespace sluice
