// The callbacks of sluice/callback.h but WriteReport: AfterStep, AfterEpoch, SaveEvery, KeepBest, StopEarly.
//
// Fit calls them on rank 0's training thread, between two steps, so nothing here is locked. What a
// callback remembers becomes a text in a checkpoint (Memory) and is parsed when a run is resumed
// (Recall), which throws Error(kDataLoss) for a text that it cannot have written.
#include <cmath>
#include <deque>
#include <filesystem>
#include <tuple>
#include <utility>

#include "base/file.h"
#include "base/strings.h"
#include "sluice/callback.h"
#include "sluice/checkpoint.h"
#include "sluice/error.h"
#include "sluice/parameters_file.h"
#include "train/callback_names.h"
#include "train/carried_states.h"
#include "train/memory/callback_memory.h"
#include "train/memory/checkpoint_metadata.h"

namespace sluice {
namespace {

using Call = std::function<void(const FitStatus&)>;

Call Required(Call call, const char* who) {
  if (!call) throw Error(ErrorCode::kInvalidArgument, StrCat(who, ": there is no function to call"));
  return call;
}

class StepCall final : public Callback {
 public:
  explicit StepCall(Call call) : call_(Required(std::move(call), "AfterStep")) {}
  void OnStep(const FitStatus& status) override { call_(status); }

 private:
  const Call call_;
};

class EpochCall final : public Callback {
 public:
  explicit EpochCall(Call call) : call_(Required(std::move(call), "AfterEpoch")) {}
  void OnEpoch(const FitStatus& status) override { call_(status); }

 private:
  const Call call_;
};

// Returns what `parse` makes of `memory`. Throws Error(kDataLoss) when it cannot be parsed.
auto Recalled(const std::string& who, const std::string& memory, auto parse) {
  auto found = parse(memory);
  if (!found)
    throw Error(ErrorCode::kDataLoss, StrCat(who, " cannot have remembered '", StrPrintable(memory), "'"));
  return *std::move(found);
}

class Saver final : public Callback {
 public:
  Saver(std::string prefix, const SaveOptions& options) : prefix_(std::move(prefix)), options_(options) {
    train::RequireFreeNames(options.metadata);
    for (const auto& [name, value, least] :
         {std::tuple("epochs", options.epochs, 0), {"steps", options.steps, 0}, {"keep", options.keep, 1}}) {
      if (value < least) {
        throw Error(ErrorCode::kInvalidArgument,
                    StrCat("SaveEvery: ", name, " is ", value, "; it must be at least ", least));
      }
    }
  }

  void OnStep(const FitStatus& status) override {
    RequireNoOtherRun(status.next);
    if (options_.steps != 0 && status.step % options_.steps == 0) {
      SaveForNow(status);
      return EndIfAsked(status, true);
    }
    EndIfAsked(status, false);
  }

  void OnEpoch(const FitStatus& status) override {
    RequireNoOtherRun(status.next);
    const bool is_epochs = options_.epochs != 0 && status.next.epoch % options_.epochs == 0;
    const bool is_steps = options_.steps != 0 && status.step % options_.steps == 0;
    if (is_epochs) {
      Save(status);
    } else if (is_steps) {
      SaveForNow(status);
    }
    EndIfAsked(status, is_epochs || is_steps);
  }

  // Saves where a run of num_steps ends within an epoch, so that it can be resumed there.
  void OnEnd(const FitStatus& status) override {
    if (status.next.step == 0 || !begun_) return;
    if (passing_.empty() || passing_.back() != status.next) {
      SaveForNow(status);
    } else if (status.test) {  // the last evaluation came after that save, and other callbacks remember it
      Save(status);
    }
  }

  bool Saves() const override { return true; }
  std::string SavesAfter(int64_t step, bool is_last) const override {
    return is_last || (options_.steps != 0 && step % options_.steps == 0) ? prefix_ : std::string();
  }
  // The name omits the folder, which may be another one when the run is resumed.
  std::string name() const override {
    return "SaveEvery " + StrPrintable(std::filesystem::path(prefix_).filename().string());
  }
  std::string Memory() const override { return train::ToText(passing_); }
  void Recall(const std::string& memory) override {
    passing_ = Recalled(name(), memory, train::ParsePositions);
  }

 private:
  void EndIfAsked(const FitStatus& status, bool is_saved) {
    if (!options_.end_asked || !options_.end_asked()) return;
    if (!is_saved) SaveForNow(status);
    throw Error(ErrorCode::kCancelled,
                StrCat("the run was asked to end and did so after ", Counted(status.step, "step"),
                       "; it can be gone on with from ", CheckpointFile(prefix_, status.next)));
  }

  // Saves a checkpoint that is removed once `keep` newer ones of its kind exist.
  void SaveForNow(const FitStatus& status) {
    passing_.push_back(status.next);
    Save(status);
    for (; passing_.size() > static_cast<size_t>(options_.keep); passing_.pop_front())
      RemoveCheckpoint(prefix_, passing_.front());
  }
  void Save(const FitStatus& status) const {
    Checkpoint here{status.next, status.step, status.seed, status.shuffle, status.batching};
    here.metadata = options_.metadata;
    if (status.next.step != 0) here.memory[FitStatus::kMemory] = status.memory();
    const std::vector<std::string> names = train::MemoryNames(status.callbacks);
    for (size_t i = 0; i < names.size(); ++i) {
      if (!names[i].empty()) here.memory[names[i]] = status.callbacks[i]->Memory();
    }
    if (status.next.step != 0 && status.net.CarriesStates())
      train::SaveCarriedStates(prefix_, status.next, /*rank=*/0, status.net);
    SaveCheckpoint(prefix_, here, status.net.CollectParams(), status.trainer);
  }

  // Is called after every step and acts after the first, with `first` the position then. Throws
  // Error(kAlreadyExists) when there is a checkpoint at or after it: another run has written that one, and it
  // would be taken for the newest of this run.
  void RequireNoOtherRun(const Position& first) {
    if (std::exchange(begun_, true)) return;
    const std::vector<Position> found = ListCheckpoints(prefix_);
    if (found.empty() || found.back() < first) return;
    throw Error(ErrorCode::kAlreadyExists,
                StrCat("SaveEvery: another run has left ", CheckpointFile(prefix_, found.back()),
                       ", further than where this one begins: go on from it, save under another prefix, or "
                       "remove it"));
  }

  const std::string prefix_;
  const SaveOptions options_;
  bool begun_ = false;
  std::deque<Position> passing_;  // checkpoints of this run, resumed or not, that SaveForNow will remove
};

// The best test score so far, and the number of evaluations since.
class BestSoFar {
 public:
  explicit BestSoFar(double min_delta = 0) : min_delta_(min_delta) {}
  // Takes note of the evaluation in `status`, if there is one. Returns whether its score is a new best;
  // it never is when score or loss are not finite.
  bool Take(const FitStatus& status) {
    if (!status.test) return false;
    if (best_.metric != status.judge.metric) best_ = {.metric = status.judge.metric};  // not comparable
    ++best_.evaluations_since;
    const double score = status.judge.higher_is_better ? status.test->score : -status.test->score;
    if (!std::isfinite(status.test->loss) || !std::isfinite(score) || !(score > best_.score + min_delta_))
      return false;
    best_.score = score;
    best_.evaluations_since = 0;
    return true;
  }
  int64_t evaluations_since() const { return best_.evaluations_since; }

  std::string Memory() const { return best_.ToText(); }
  void Recall(const std::string& who, const std::string& memory) {
    best_ = Recalled(who, memory, train::Best::Parse);
  }

 private:
  const double min_delta_;
  train::Best best_;
};

class BestKeeper final : public Callback {
 public:
  BestKeeper(std::string file, FileMetadata metadata)
      : file_(std::move(file)), metadata_(std::move(metadata)) {
    train::RequireFreeNames(metadata_);
    for (const char* name : {"test_metric", "test_score"}) {
      if (metadata_.contains(name)) {
        throw Error(ErrorCode::kInvalidArgument,
                    StrCat("KeepBest: the metadata have an entry '", name, "', which it writes itself"));
      }
    }
  }
  void OnStep(const FitStatus& status) override { Take(status); }
  void OnEpoch(const FitStatus& status) override { Take(status); }
  void OnEnd(const FitStatus& status) override {
    if (status.next.step != 0) Take(status);
  }
  bool NeedsTestSet() const override { return true; }
  // The name omits the folder, as that of SaveEvery.
  std::string name() const override {
    return "KeepBest " + StrPrintable(std::filesystem::path(file_).filename().string());
  }
  std::string Memory() const override { return best_.Memory(); }
  void Recall(const std::string& memory) override { best_.Recall(name(), memory); }

 private:
  void Take(const FitStatus& status) {
    if (!best_.Take(status)) return;
    const int64_t epoch = status.next.epoch + (status.next.step > 0 ? 1 : 0);
    FileMetadata metadata = metadata_;
    metadata["epoch"] = std::to_string(epoch);
    metadata["step"] = std::to_string(status.step);
    if (status.judge.metric != "accuracy") metadata["test_metric"] = status.judge.metric;
    metadata[status.judge.metric == "accuracy" ? "test_accuracy" : "test_score"] = StrCat(status.test->score);
    SaveParameters(file_, status.net.CollectParams(), std::move(metadata));
  }

  const std::string file_;
  const FileMetadata metadata_;
  BestSoFar best_;
};

class EarlyStopper final : public Callback {
 public:
  explicit EarlyStopper(const StopOptions& options) : patience_(options.patience), best_(options.min_delta) {
    if (options.patience < 1 || !(options.min_delta >= 0)) {
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat("StopEarly: patience is ", options.patience, ", min_delta ", options.min_delta,
                         "; they must be at least 1 and 0"));
    }
  }
  void OnEpoch(const FitStatus& status) override { best_.Take(status); }
  bool NeedsTestSet() const override { return true; }
  bool MayStop() const override { return true; }
  bool WantsStop() const override { return best_.evaluations_since() >= patience_; }
  std::string name() const override { return "StopEarly"; }
  std::string Memory() const override { return best_.Memory(); }
  void Recall(const std::string& memory) override { best_.Recall(name(), memory); }

 private:
  const int64_t patience_;
  BestSoFar best_;
};

class RateLowerer final : public Callback {
 public:
  explicit RateLowerer(const PlateauOptions& options) : options_(options), best_(options.min_delta) {
    if (!(options.factor > 0 && options.factor < 1) || options.patience < 1 || !(options.min_delta >= 0)) {
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat("LowerRateOnPlateau: factor is ", options.factor, ", patience ", options.patience,
                         ", min_delta ", options.min_delta,
                         "; they must be between 0 and 1, at least 1, and at least 0"));
    }
  }
  void OnBegin(const FitStatus& status) override {
    for (int64_t i = 0; i < lowered_; ++i) Lower(status.trainer);
  }
  void OnEpoch(const FitStatus& status) override {
    if (!status.test || best_.Take(status) || best_.evaluations_since() % options_.patience != 0) return;
    ++lowered_;
    Lower(status.trainer);
  }
  bool NeedsTestSet() const override { return true; }
  std::string name() const override { return "LowerRateOnPlateau"; }
  std::string Memory() const override { return StrCat(lowered_, " ", best_.Memory()); }
  void Recall(const std::string& memory) override {
    const size_t space = memory.find(' ');
    lowered_ = Recalled(name(), memory, [&](const std::string& text) {
      const auto lowered = ParseInt(text.substr(0, space));
      return space == std::string::npos || (lowered && *lowered < 0) ? std::nullopt : lowered;
    });
    best_.Recall(name(), memory.substr(space + 1));
  }

 private:
  void Lower(Trainer& trainer) const {
    trainer.SetLearningRate(options_.factor * trainer.base_learning_rate());
  }

  const PlateauOptions options_;
  BestSoFar best_;
  int64_t lowered_ = 0;  // how often
};

}  // namespace

CallbackPtr AfterStep(Call call) {
  return std::make_shared<StepCall>(std::move(call));
}
CallbackPtr AfterEpoch(Call call) {
  return std::make_shared<EpochCall>(std::move(call));
}
CallbackPtr SaveEvery(std::string prefix, const SaveOptions& options) {
  ValidateFileName(prefix, "SaveEvery").OrThrow();
  return std::make_shared<Saver>(std::move(prefix), options);
}
CallbackPtr KeepBest(std::string file, FileMetadata metadata) {
  ValidateFileName(file, "KeepBest").OrThrow();
  return std::make_shared<BestKeeper>(std::move(file), std::move(metadata));
}
CallbackPtr StopEarly(const StopOptions& options) {
  return std::make_shared<EarlyStopper>(options);
}
CallbackPtr LowerRateOnPlateau(const PlateauOptions& options) {
  return std::make_shared<RateLowerer>(options);
}

}  // namespace sluice
