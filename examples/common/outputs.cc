// Everything that a training run writes: checkpoints, parameters, the HTML report and the JSON summary.
//
// CheckOutputs refuses paths that cannot be written before training begins, so that no result is lost after
// hours. Only the worker of rank 0 writes, and only rank 0 calls CheckOutputs and WriteJson; Callbacks is
// called on every worker, because Fit expects the same list everywhere and runs rank 0's.
#include "common/outputs.h"

#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/flags.h"
#include "common/text.h"
#include "sluice/checkpoint.h"
#include "sluice/runtime.h"

namespace sluice::examples {

void RequirePlaceFor(const std::string& flag, const std::string& file) {
  const std::filesystem::path path = file, folder = path.has_parent_path() ? path.parent_path() : ".";
  const auto refuse = [&](const std::string& why) {
    ThrowInvalid(flag, StrCat("cannot write '", file, "': ", why));
  };
  if (std::filesystem::is_directory(path)) refuse("it is a folder");
  if (!std::filesystem::is_directory(folder)) refuse(StrCat("there is no folder '", folder.string(), "'"));
  if (access(folder.c_str(), W_OK) != 0) refuse(StrCat("no file can be made in '", folder.string(), "'"));
}

namespace {

// Refuses a --model-prefix with checkpoints that are newer than the start of this run. They would be another
// run's, and a later --resume, which takes the newest one, would continue that run instead of this one.
void RequireNoOtherRun() {
  const std::vector<Position> found = ListCheckpoints(FLAGS_model_prefix);
  if (FLAGS_resume || found.empty() || !TrainsAfter(FLAGS_load_epoch)) return;
  const std::string newest = CheckpointFile(FLAGS_model_prefix, found.back());
  if (FLAGS_load_epoch == 0) {
    ThrowInvalid("model-prefix", StrCat("is '", FLAGS_model_prefix, "', where another run has left ", newest,
                                        ": --resume goes on from it; else give another prefix, or remove the "
                                        "checkpoints there"));
  }
  if (found.back() > Position{FLAGS_load_epoch, 0}) {
    ThrowInvalid("load-epoch",
                 StrCat("is ", FLAGS_load_epoch, ", and ", newest,
                        " is further: --resume goes on from it; else remove the checkpoints after epoch ",
                        FLAGS_load_epoch, ", or copy that epoch's to another --model-prefix"));
  }
}

}  // namespace

// Refuses two flags that name the same file: the one written later would replace the other.
void RequireDifferentFiles() {
  std::map<std::filesystem::path, std::string> taken;
  for (const auto& [flag, file] : {std::pair("save-params", FLAGS_save_params),
                                   {"json", FLAGS_json},
                                   {"best-params", FLAGS_best_params},
                                   {"report", FLAGS_report},
                                   {"trace", FLAGS_trace}}) {
    if (file.empty()) continue;
    const auto [other, is_first] = taken.emplace(std::filesystem::weakly_canonical(file), flag);
    if (!is_first) ThrowInvalid(flag, StrCat("is '", file, "', which --", other->second, " writes to, too"));
  }
}

void CheckOutputs() {
  RequireDifferentFiles();
  if (!FLAGS_save_params.empty()) RequirePlaceFor("save-params", FLAGS_save_params);
  if (!FLAGS_model_prefix.empty()) {
    RequirePlaceFor("model-prefix", CheckpointFile(FLAGS_model_prefix, {FLAGS_load_epoch + 1, 0}));
    RequireNoOtherRun();
  }
  if (!FLAGS_json.empty()) RequirePlaceFor("json", FLAGS_json);
  if (!FLAGS_best_params.empty()) RequirePlaceFor("best-params", FLAGS_best_params);
  if (!FLAGS_report.empty()) RequirePlaceFor("report", FLAGS_report);
}

bool SavesParameters() {
  return !(FLAGS_save_params.empty() && FLAGS_model_prefix.empty() && FLAGS_best_params.empty());
}

std::vector<CallbackPtr> Callbacks(const FileMetadata& metadata) {
  std::vector<CallbackPtr> callbacks;
  // SaveEvery comes last: a checkpoint also holds the state of the other callbacks, so they must have run
  // before it is written.
  if (!FLAGS_best_params.empty()) callbacks.push_back(KeepBest(FLAGS_best_params, metadata));
  if (FLAGS_lr_plateau > 0) callbacks.push_back(LowerRateOnPlateau({.factor = FLAGS_lr_plateau}));
  if (FLAGS_early_stopping > 0) callbacks.push_back(StopEarly({.patience = FLAGS_early_stopping}));
  if (!FLAGS_report.empty())
    callbacks.push_back(WriteReport(FLAGS_report, StrCat(FLAGS_network, ", ", FLAGS_kv_store)));
  if (!FLAGS_model_prefix.empty())
    callbacks.push_back(SaveEvery(FLAGS_model_prefix, {.epochs = FLAGS_save_period,
                                                       .steps = FLAGS_save_steps,
                                                       .end_asked = TerminationFlag(),
                                                       .metadata = metadata}));
  return callbacks;
}

void WriteJson(const FitReport& report, const std::string& metric, const EvalReport& test,
               const KVStore& store, int num_servers, const std::string& samples) {
  const nlohmann::json json = {
      {"test_" + metric, test.score},    {"test_loss", test.loss},
      {"train_loss", report.train_loss}, {samples + "_per_sec", report.samples_per_sec},
      {"steps", report.steps},           {"epochs", report.epochs},
      {"kv_store", store.type()},        {"num_workers", store.num_workers()},
      {"num_servers", num_servers},      {"network", FLAGS_network},
      {"batch_size", FLAGS_batch_size}};
  WriteFile(FLAGS_json, json.dump(2) + "\n");
}

}  // namespace sluice::examples
