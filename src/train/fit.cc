// The training loop. FitRun is one call of Fit, on the caller's thread.
//
// Workers of sync stores run the same steps and meet at the same barriers: after evaluations, after
// epochs, and at the end. With a callback that may stop the run, workers of all stores meet in
// MustStop. RequireSameRun has compared everything that this depends on. Rank 0, the leader, alone
// prints, evaluates and calls callbacks.
#include "sluice/fit.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/strings.h"
#include "data/buckets.h"
#include "sluice/autograd.h"
#include "sluice/error.h"
#include "sluice/loss.h"
#include "sluice/store_type.h"
#include "sluice/trainer.h"
#include "train/callback_names.h"
#include "train/carried_states.h"
#include "train/epoch_score.h"
#include "train/fit_step.h"
#include "train/memory/epoch_sums.h"
#include "train/progress.h"
#include "train/same_run.h"
#include "train/scoring.h"
#include "train/statistics_file.h"
#include "train/trainer/own_store.h"

namespace sluice {
namespace {

constexpr int64_t kWarmUpSteps = 5;  // not counted in the samples per second when more steps follow
constexpr int kColumns = 80;

std::string LabelsOf(const Dataset& data) {
  const std::optional<Shape> shape = data.label_shape();
  return shape ? StrCat("arrays of ", *shape) : "classes";
}

// Returns a digest of the samples' buckets, which decide about the order of an epoch.
std::string DigestOfBuckets(const Dataset& data) {
  const std::vector<int64_t> buckets = BucketsOf(data);
  return buckets.empty() ? "none" : StrCat("digest ", Fnv1a(StrJoin(buckets)));
}

// Returns `options`. Throws Error(kInvalidArgument) for those that are wrong for any network and data.
const FitOptions& Checked(const FitOptions& options) {
  const auto refuse = [](const auto&... why) {
    throw Error(ErrorCode::kInvalidArgument, StrCat("Fit: ", why...));
  };
  if (const size_t loads = options.work_load.size(); loads != 0 && loads != options.contexts.size())
    refuse("work_load has ", loads, " loads for ", options.contexts.size(), " contexts; give one for each");
  for (size_t i = 0; i < options.callbacks.size(); ++i) {
    if (options.callbacks[i] == nullptr) refuse("callback ", i, " is a null pointer; leave it out");
  }
  return options;
}

class FitRun {
 public:
  FitRun(nn::Layer& net, std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test,
         OptimizerConfig optimizer, std::shared_ptr<KVStore> store, const FitOptions& options)
      : net_(net),
        test_(std::move(test)),
        store_(train::StoreOrDefault(std::move(store))),
        options_(Checked(options)),
        loader_(std::move(train), LoaderOptions()),
        criterion_(train::LossFor(options.loss, data(), "Fit")),
        step_(net_, criterion_, options_),
        judge_(train::JudgeOf(train::NewMetric(options.metric, data()).get())),
        batching_(BatchingOfRun()),
        progress_(std::cout, options.live_progress && isatty(STDOUT_FILENO), kColumns, options.disp_batches,
                  options.quiet),
        epoch_(train::NewMetric(options.metric, data())) {
    if (leader() && test_ == nullptr) RequireNoTestSetNeeded();
    if (options_.start_step < options_.start.step) {
      throw Error(
          ErrorCode::kInvalidArgument,
          StrCat("Fit: start_step is ", options_.start_step, ", but start is step ", options_.start.step,
                 " of epoch ", options_.start.epoch, ": so many steps at least were done before it"));
    }
    if (options_.start != Position()) loader_.Seek(options_.start);
    optimizer = train::ResolvedFor(*store_, std::move(optimizer));
    train::RequireSameRun(
        options_, optimizer, batching_,
        {{"the samples", StrCat(data().sample_shape())},
         {"the buckets", DigestOfBuckets(data())},
         {"the labels", LabelsOf(data())},
         {"the metric", judge_.metric},
         {"the steps after which layers' states are saved", train::StepsOfSaves(options_.callbacks, net_)}},
        *store_);
    RequireLabelsFit();
    train::RequireFits(net_, data(), step_.contexts(), *criterion_, options_.metric);
    optimizer.normalize_by_samples = !clips();
    rates_ = Optimizer::Create(optimizer);
    trainer_ = std::make_unique<Trainer>(
        parameters_, std::move(optimizer), store_,
        TrainerOptions{.update_on_kvstore = !clips(), .clip_global_norm = options_.clip_global_norm});
    if (leader()) Recall();
    if (leader() && !options_.statistics.empty())  // the Trainer has made all contexts alike
      train::LoadStatistics(options_.statistics, parameters_);
    if (!options_.optimizer_states.empty()) trainer_->LoadStates(options_.optimizer_states);
  }

  FitReport Run() {
    started_ = SteadyClock().Now();
    CallCallbacks(&Callback::OnBegin);
    // MustStop is asked before the first epoch, too: a run may be resumed from where it had been stopped.
    for (next_ = options_.start; !IsOver() && !MustStop(); ++report_.epochs) RunEpoch();
    store_->WaitAll();
    SaveCarried(/*is_last=*/true);
    const bool evaluated = next_.step == 0 ? report_.epochs > 0 : evaluation_.has_value();
    if (!evaluated && leader() && test_ != nullptr) EvaluateNow();
    CallCallbacks(&Callback::OnEnd);
    AwaitLeader();
    for (const auto& parameter : parameters_) {  // the Trainer, which they fetch from, goes with this run
      if (parameter->row_sparse()) parameter->rows().FetchAll();
    }
    return report_;
  }

 private:
  const Dataset& data() const { return loader_.dataset(); }
  bool leader() const { return store_->rank() == 0; }
  bool clips() const { return options_.clip_global_norm != 0; }
  bool by_steps() const { return options_.num_steps >= 0; }
  int64_t StepsDone() const { return options_.start_step + report_.steps; }
  bool IsOver() const {
    return by_steps() ? StepsDone() >= options_.num_steps : next_.epoch >= options_.num_epochs;
  }
  int64_t LastEpoch() const {
    if (!by_steps()) return options_.num_epochs;
    const int64_t per_epoch = loader_.steps_per_epoch();
    return next_.epoch + (next_.step + options_.num_steps - StepsDone() + per_epoch - 1) / per_epoch;
  }

  DataLoaderOptions LoaderOptions() const {
    DataLoaderOptions loader;
    loader.batch_size = options_.batch_size;
    loader.shuffle = options_.shuffle;
    loader.seed = options_.seed;
    loader.last_batch = options_.last_batch;
    loader.class_weights = options_.class_weights;
    loader.num_threads = options_.loader_threads;
    loader.share = {store_->rank(), store_->num_workers()};
    return loader;
  }

  Batching BatchingOfRun() const {
    const SamplerConfig sampler{.num_samples = loader_.dataset().size(), .batch_size = options_.batch_size};
    return {sampler.num_samples, GlobalBatch(sampler, store_->num_workers()), options_.last_batch,
            options_.class_weights};
  }

  void RequireNoTestSetNeeded() const {
    for (const CallbackPtr& callback : options_.callbacks) {
      if (!callback->NeedsTestSet()) continue;
      throw Error(ErrorCode::kInvalidArgument, StrCat("Fit: ", callback->name(),
                                                      " goes by the score on a test set, and there is "
                                                      "none: give Fit one, or leave the callback out"));
    }
  }

  void RequireLabelsFit() const {
    if (data().label_shape() && options_.top_k > 1) {
      throw Error(ErrorCode::kInvalidArgument, StrCat("Fit: top_k is ", options_.top_k,
                                                      ", of classes, but labels are ", LabelsOf(data())));
    }
    if (test_ == nullptr || test_->label_shape() == data().label_shape()) return;
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("Fit: the labels of the test set are ", LabelsOf(*test_), ", those to train on ",
                       LabelsOf(data()), "; they must be the same"));
  }

  // Gives callbacks, and this run itself, what they remembered in the checkpoint.
  void Recall() {
    const std::vector<std::string> names = train::MemoryNames(options_.callbacks);
    for (size_t i = 0; i < names.size(); ++i) {
      const auto remembered = options_.memory.find(names[i]);
      if (remembered != options_.memory.end()) options_.callbacks[i]->Recall(remembered->second);
    }
    const auto own = options_.memory.find(FitStatus::kMemory);
    if (own != options_.memory.end() && options_.start.step != 0)
      epoch_.GoOnFrom(train::EpochSums::Parse(own->second));
  }

  // Returns the sums of the epoch so far, for a checkpoint. Waits for the newest step.
  std::string Sums() {
    while (epoch_.pending() > 0) Count();
    return epoch_.sums().ToText();
  }

  // Runs what is left of the epoch of next_: up to the next epoch's first batch, or the last step of the run.
  void RunEpoch() {
    if (next_.step == 0) epoch_.Reset();  // else the sums come from a checkpoint, or are empty
    net_.ForgetStates(/*training=*/true);
    if (report_.steps == 0 && next_.step != 0 && !options_.carried_states.empty())
      train::LoadCarriedStates(options_.carried_states, next_, net_);
    const int64_t epoch = next_.epoch, last_epoch = LastEpoch(), steps = loader_.steps_per_epoch();
    do {
      Batch batch = *loader_.Next();
      epoch_.Add(step_.Run(batch, StepsDone(), *trainer_));
      ++report_.steps;
      Measure(batch.global_size);
      loader_.Reuse(std::move(batch));
      if (epoch_.pending() > 1) Count();
      const int64_t done = ++next_.step;
      if (done == steps) next_ = {epoch + 1, 0};
      Show(epoch, last_epoch, done, steps);
      if (next_.epoch == epoch) AfterStep();
    } while (next_.epoch == epoch && !(by_steps() && IsOver()));
    while (epoch_.pending() > 0) Count();
    if (next_.epoch != epoch) AfterEpoch();
  }

  void AfterStep() {
    SaveCarried(/*is_last=*/false);
    const bool evaluates = options_.eval_steps > 0 && StepsDone() % options_.eval_steps == 0;
    if (leader()) {
      evaluation_.reset();
      if (test_ != nullptr && evaluates) {
        EvaluateNow();
        PrintEvaluation(StrCat("step ", StepsDone()));
      }
      CallCallbacks(&Callback::OnStep);
    }
    if (evaluates) AwaitLeader();
  }

  // Writes the states that this worker's layers carry if a callback is about to save a checkpoint within an
  // epoch. Rank 0's callback writes its own; in sync stores it waits for the other workers' files, so that a
  // checkpoint with parameters has them all.
  void SaveCarried(bool is_last) {
    if (report_.steps == 0 || next_.step == 0 || !net_.CarriesStates()) return;
    const Time before = SteadyClock().Now();
    for (const CallbackPtr& callback : options_.callbacks) {
      const std::string prefix = callback->SavesAfter(StepsDone(), is_last);
      if (prefix.empty()) continue;
      if (!leader()) train::SaveCarriedStatesOrWarn(prefix, next_, store_->rank(), net_);
      if (!StoreType::Parse(store_->type()).async)
        store_->Barrier(BarrierGroup::kWorkers, options_.leader_timeout);
    }
    not_training_ += SteadyClock().Now() - before;
  }

  void AfterEpoch() {
    if (!by_steps()) report_.train_loss.push_back(epoch_.loss());
    if (leader()) SumUpEpoch();
    AwaitLeader();
  }

  // Waits, in sync stores, until rank 0 has evaluated and called its callbacks. That may take longer than a
  // pull's timeout, so the wait has a timeout of its own.
  void AwaitLeader() {
    const Time before = SteadyClock().Now();
    if (!StoreType::Parse(store_->type()).async)
      store_->Barrier(BarrierGroup::kWorkers, options_.leader_timeout);
    if (!leader()) not_training_ += SteadyClock().Now() - before;
  }

  void SumUpEpoch() {
    if (test_ != nullptr) EvaluateNow();
    const std::string head = StrCat("epoch ", next_.epoch);
    const double loss = epoch_.loss();
    const std::string score = judge_.is_loss ? "" : StrCat(judge_.metric, " ", epoch_.score(), " ");
    progress_.Say(StrCat(head, " loss ", loss, " ", score, static_cast<int64_t>(report_.samples_per_sec), " ",
                         options_.samples, "/s"));
    if (test_ != nullptr) PrintEvaluation(head);
    if (epoch_.samples() > 0 && !std::isfinite(loss) && !std::exchange(diverged_, true)) {
      const std::string why =
          StrCat("the loss of epoch ", next_.epoch, " is ", loss,
                 ": the run has diverged; a smaller learning rate or clipped gradients may help");
      if (options_.quiet) LOG(WARNING) << WrapLogged(why);
      progress_.Say(WrapMessage("warning: " + why));
    }
    CallCallbacks(&Callback::OnEpoch);
  }

  void PrintEvaluation(const std::string& head) {
    progress_.Say(StrCat(head, " test ", judge_.metric, " ", report_.test_score,
                         options_.top_k > 1 ? StrCat(" top-", options_.top_k, " ", report_.test_top_k) : ""));
  }

  // Calls this method of all callbacks, on rank 0; those that save come last. The time that they take is not
  // counted in the samples per second.
  void CallCallbacks(void (Callback::*moment)(const FitStatus&)) {
    if (!leader() || options_.callbacks.empty()) return;
    const Time before = SteadyClock().Now();
    if (rates_->config().learning_rate != trainer_->base_learning_rate()) {  // a callback has set it
      OptimizerConfig config = rates_->config();
      config.learning_rate = trainer_->base_learning_rate();
      rates_ = Optimizer::Create(config);
    }
    const FitStatus status{.next = next_,
                           .step = StepsDone(),
                           .seed = options_.seed,
                           .shuffle = options_.shuffle,
                           .batching = batching_,
                           .loss = epoch_.loss(),
                           .score = epoch_.score(),
                           .judge = judge_,
                           .samples_per_sec = report_.samples_per_sec,
                           .samples = options_.samples,
                           .learning_rate = rates_->LearningRate(std::max<int64_t>(1, StepsDone())),
                           .memory = sums_,
                           .test = evaluation_,
                           .net = net_,
                           .trainer = *trainer_,
                           .callbacks = options_.callbacks};
    for (const bool saves : {false, true}) {
      for (const CallbackPtr& callback : options_.callbacks) {
        if (callback->Saves() == saves) (*callback.*moment)(status);
      }
    }
    not_training_ += SteadyClock().Now() - before;
  }

  // Returns rank 0's decision whether to stop early. It is a barrier of all workers when a callback may stop.
  bool MustStop() {
    const auto any = [&](bool (Callback::*ask)() const) {
      return std::ranges::any_of(options_.callbacks, [&](const CallbackPtr& c) { return (*c.*ask)(); });
    };
    if (!any(&Callback::MayStop)) return false;
    report_.stopped_early =
        store_->Agree(any(&Callback::WantsStop) ? "stop" : "go on", options_.leader_timeout) == "stop";
    if (report_.stopped_early && leader()) progress_.Say(StrCat("stopped early after epoch ", next_.epoch));
    return report_.stopped_early;
  }

  void Measure(int64_t images) {
    images_ += images;
    const Time now = SteadyClock().Now();
    const double seconds = ToSeconds(now - started_ - not_training_);
    if (seconds > 0) report_.samples_per_sec = static_cast<double>(images_) / seconds;
    if (report_.steps != kWarmUpSteps) return;
    started_ = now;
    not_training_ = {};
    images_ = 0;
  }

  void Count() {
    const double loss = epoch_.Count();
    if (by_steps()) report_.train_loss.push_back(loss);
  }

  void Show(int64_t epoch, int64_t last_epoch, int64_t step, int64_t steps) {
    if (!leader() || epoch_.samples() == 0) return;
    const double per_step =
        report_.samples_per_sec > 0
            ? static_cast<double>(options_.batch_size * store_->num_workers()) / report_.samples_per_sec
            : 0;
    const auto left = static_cast<double>((last_epoch - epoch) * steps - step) * per_step;
    progress_.Update(SteadyClock().Now(), {.epoch = static_cast<int>(epoch),
                                           .num_epochs = static_cast<int>(last_epoch),
                                           .batch = step,
                                           .num_batches = steps,
                                           .loss = epoch_.loss(),
                                           .metric = judge_.is_loss ? "" : judge_.metric,
                                           .score = epoch_.score(),
                                           .samples_per_sec = report_.samples_per_sec,
                                           .samples = options_.samples,
                                           .left = FromSeconds(left)});
  }

  void EvaluateNow() {
    const Time before = SteadyClock().Now();
    evaluation_ = Evaluate(net_, *test_, options_.contexts,
                           {.loss = criterion_,
                            .metric = options_.metric,
                            .top_k = options_.top_k,
                            .loader_threads = options_.loader_threads,
                            .batch_size = options_.eval_batch_size});
    report_.test_score = evaluation_->score;
    report_.test_loss = evaluation_->loss;
    report_.test_top_k = evaluation_->top_k;
    not_training_ += SteadyClock().Now() - before;
  }

  nn::Layer& net_;
  const nn::ParameterDict parameters_ = net_.CollectParams();
  const std::shared_ptr<const Dataset> test_;
  const std::shared_ptr<KVStore> store_;
  const FitOptions options_;
  DataLoader loader_;
  const std::shared_ptr<const nn::Loss> criterion_;
  train::FitStep step_;
  const Judge judge_;
  const Batching batching_;
  train::Progress progress_;
  std::unique_ptr<const Optimizer> rates_;  // computes the learning rate that callbacks see
  std::unique_ptr<Trainer> trainer_;
  train::EpochScore epoch_;
  const std::function<std::string()> sums_ = [this] { return Sums(); };
  bool diverged_ = false;
  FitReport report_;
  Position next_;
  std::optional<EvalReport> evaluation_;  // the evaluation after the latest step, if there was one
  Time started_{};
  Duration not_training_{};
  int64_t images_ = 0;
};

}  // namespace

FitReport Fit(nn::Layer& net, std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test,
              OptimizerConfig optimizer, std::shared_ptr<KVStore> store, const FitOptions& options) {
  return FitRun(net, std::move(train), std::move(test), std::move(optimizer), std::move(store), options)
      .Run();
}

}  // namespace sluice
