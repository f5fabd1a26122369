// Defines the command-line flags that the training programs share, and checks them.
//
// ParseFlags is the entry point: it parses the command line and refuses every wrong value and combination
// that can be recognised without the data. The functions behind it (Contexts, LearningRate, ...) turn one
// flag each into the type that the training code takes; they validate on every call, so ParseFlags checks a
// flag by calling its function and dropping the result. Everything here runs on the main thread.
#include "common/flags.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <limits>

#include "common/placement.h"
#include "common/text.h"
#include "sluice/flags.h"
#include "sluice/ndarray.h"
#include "sluice/optimizer.h"
#include "sluice/store_type.h"

namespace sluice::examples {
namespace {

// Returns a text that gflags may keep a pointer to.
const char* OptimizerHelp() {
  static const std::string help = StrCat("Optimiser: ", StrJoin(TrainingOptimizers()), ".");
  return help.c_str();
}

}  // namespace

std::vector<std::string> TrainingOptimizers() {
  std::vector<std::string> names;
  for (const std::string_view name : OptimizerNames()) {
    // A sum, and the outer optimiser of workers that take many steps by themselves (DiLoCo).
    if (name != Name(OptimizerKind::kAccumulate) && name != Name(OptimizerKind::kDelayedNag))
      names.emplace_back(name);
  }
  return names;
}

}  // namespace sluice::examples

DEFINE_string(kv_store, "local",
              "Type of the store: local, device, nccl, dist_sync, dist_device_sync, dist_async, "
              "dist_device_async, or one of "
              "MXNet's other names of these.");
DEFINE_string(gpus, "",
              "GPUs to train on, for example 0 or 0,2; one may be named twice. Empty: CPU contexts "
              "(--num-devices).");
DEFINE_int32(num_devices, 1, "How many CPU contexts to train on; they share the cores.");
DEFINE_string(work_load_list, "", "Shares of the batch by device, for example 3,1,2. Empty: equal.");
DEFINE_string(
    device_memory, "",
    "With --group2ctx auto: MiB that the arrays of a device may take, one number for all or one for "
    "each, for example 4000,2000. Empty: no bound.");
DEFINE_string(dtype, "float32",
              "Type of weights and gradients, in memory and on the wire: float32, or bfloat16 with float32 "
              "masters where they are updated; with AMX and on Zen 4 products are of bfloat16, too "
              "(SLUICE_BFLOAT16_ARITHMETIC).");
DEFINE_int64(batch_size, 64, "Batch size of each worker.");
DEFINE_int64(num_epochs, 10,
             "How often to go through the training data, epochs before --load-epoch included.");
DEFINE_int64(
    num_steps, -1,
    "Train exactly this many steps in place of epochs, steps before --load-epoch or --resume included; -1: "
    "epochs count.");
DEFINE_string(lr, "",
              "Learning rate. Empty: the program's own for this optimiser, or the optimiser's "
              "(docs/examples.md); async stores take one that converges for their number of workers.");
DEFINE_double(lr_factor, 0.1, "What the learning rate is multiplied by at each of --lr-step-epochs.");
DEFINE_string(lr_step_epochs, "",
              "Epochs of the data after which the learning rate drops, for example 10,15.");
DEFINE_double(
    lr_plateau, 0,
    "What the learning rate is multiplied by after an epoch without a better test score; 0: it stays.");
DEFINE_string(optimizer, "sgd", sluice::examples::OptimizerHelp());
DEFINE_string(
    mom, "",
    "Momentum of sgd, nag, rmsprop and signum. Empty: 0.9; in async stores of several workers, where "
    "what comes late acts like momentum, 0.");
DEFINE_double(wd, 1e-4, "Weight decay.");
DEFINE_int64(disp_batches, 100, "Print a line every so many batches.");
DEFINE_string(model_prefix, "",
              "Save parameters as PREFIX-0001.safetensors and optimiser states as "
              "PREFIX-0001.states.safetensors, and so on, after epochs (rank 0), and where SIGTERM or "
              "Ctrl-C ends the run; --resume goes on from there.");
DEFINE_int64(save_period, 1, "Save every so many epochs.");
DEFINE_int64(
    save_steps, 0,
    "Save also every so many steps of the run, within an epoch as PREFIX-0001-000200.safetensors; the newest "
    "two stay. 0: not within epochs.");
DEFINE_bool(
    resume, false,
    "Go on from the newest checkpoint of --model-prefix, to the last bit as if the run had never stopped; "
    "from the start when there is none.");
DEFINE_string(best_params, "",
              "Keep the parameters of the epoch with the best test score in this file (rank 0).");
DEFINE_int64(early_stopping, 0, "End after so many epochs without a better test score; 0: never.");
DEFINE_string(report, "", "Draw learning curves into this HTML file, rewritten after every epoch (rank 0).");
DEFINE_int64(eval_steps, 0, "Evaluate also every so many steps; 0: after epochs only.");
DEFINE_double(label_smoothing, 0, "Share of each label that is spread over all classes, from 0 to below 1.");
DEFINE_double(
    clip_global_norm, 0,
    "Shrink the gradients of a step, averaged over the batch of all workers, to this 2-norm over all "
    "parameters where theirs is larger; workers update, not servers. 0: off.");
DEFINE_string(
    gc_type, "none",
    "What pushes to dist stores send in place of gradients: none, 2bit, 1bit, fp16, bf16, topk; what "
    "they do not say goes with later pushes.");
DEFINE_double(
    gc_threshold, 0.5,
    "2bit sends it, with its sign, of each sum over a worker's batch that reaches it: choose it about as "
    "large as the large ones are, and in proportion to --batch-size; of 1bit where +1 begins.");
DEFINE_double(gc_ratio, 0.01, "Share of the elements that topk sends.");
DEFINE_string(gc_weights, "none",
              "How dist stores send float32 weights back: none (as they are), fp16, bf16.");
DEFINE_int64(load_epoch, 0,
             "Go on after this epoch of --model-prefix: with its parameters, and its optimiser states where "
             "they are; --num-epochs is the number of the last epoch.");
DEFINE_int64(top_k, 0, "Report top-k accuracy too; 0: only accuracy.");
DEFINE_int64(num_examples, -1,
             "Train on the first so many samples of --data-dir, or on so many synthetic ones; -1: all, or "
             "the synthetic set's own number.");
DEFINE_int64(
    num_test_examples, -1,
    "Evaluate on the first so many samples of the test set, or on so many synthetic ones; -1: all, or "
    "the synthetic set's own number.");
DEFINE_string(last_batch, "keep",
              "What becomes of the samples at the end of an epoch that do not fill a batch of all workers: "
              "keep (a smaller batch), discard, rollover (they begin the next epoch's first batch).");
DEFINE_string(class_weights, "",
              "How often samples of each class are drawn, for example 1,1,5 for three classes; an epoch is "
              "then drawn with replacement. balanced: all classes equally often. Empty: each sample once.");
DEFINE_int64(loader_threads, 1, "Threads that make batches ahead.");
DEFINE_int64(seed, 0, "Seed of the initial weights and of the order of the samples.");
DEFINE_bool(shuffle, true, "Whether to shuffle the training data each epoch.");
DEFINE_string(load_params, "",
              "Start from this safetensors file, converted to --dtype where it has another type.");
DEFINE_string(save_params, "", "Write the final parameters to this safetensors file (rank 0).");
DEFINE_string(json, "", "Write a report to this file (rank 0).");
DEFINE_string(
    trace, "",
    "Write a timeline of operations, copies, pushes and pulls to this file, for ui.perfetto.dev; "
    "worker 1 of a job writes FILE.worker1.EXTENSION, and so on. For short runs: a million events.");

namespace sluice::examples {
namespace {

constexpr double kPositive = std::numeric_limits<double>::denorm_min();

std::vector<double> Numbers(const std::string& flag, const std::string& text, double least = kPositive,
                            const std::string& wanted = "positive numbers") {
  std::vector<double> numbers;
  for (const std::string& part : text.empty() ? std::vector<std::string>() : StrSplit(text, ',')) {
    const auto number = ParseFiniteDouble(StrTrim(part));
    if (!number || *number < least)
      ThrowInvalid(flag, StrCat("is '", text, "'; it takes ", wanted, " with commas between"));
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<double> NumberOrNothing(const std::string& flag, const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto number = ParseFiniteDouble(text);
  if (!number) ThrowInvalid(flag, StrCat("got '", text, "'; it takes a finite number"));
  return number;
}

bool IsBalanced() {
  return FLAGS_class_weights == "balanced";
}

std::vector<double> WeightsByClass() {
  return Numbers("class-weights", FLAGS_class_weights, 0, "balanced, or numbers from 0 on");
}

std::vector<Context> Gpus() {
  std::vector<Context> contexts;
  for (const std::string& part : StrSplit(FLAGS_gpus, ',')) {
    const auto id = ParseInt(StrTrim(part));
    if (!id || *id < 0 || *id > INT_MAX)
      ThrowInvalid("gpus", StrCat("is '", FLAGS_gpus, "'; it takes numbers of GPUs with commas between"));
    contexts.push_back(gpu(static_cast<int>(*id)));
  }
  try {
    for (const Context& context : contexts) NDArray::Empty({1}, context);
  } catch (const Error& error) {
    ThrowInvalid("gpus", StrCat("is '", FLAGS_gpus, "': ", error.what()));
  }
  return contexts;
}

void CheckNumbers() {
  RequireBetween("batch-size", FLAGS_batch_size, 1, 1'000'000'000);
  if (FLAGS_num_examples != -1) RequireAtLeast("num-examples", FLAGS_num_examples, 1);
  if (FLAGS_num_test_examples != -1) RequireAtLeast("num-test-examples", FLAGS_num_test_examples, 1);
  RequireAtLeast("num-epochs", FLAGS_num_epochs, 0);
  RequireAtLeast("num-steps", FLAGS_num_steps, -1);
  RequireAtLeast("disp-batches", FLAGS_disp_batches, 0);
  RequireAtLeast("save-period", FLAGS_save_period, 1);
  RequireAtLeast("save-steps", FLAGS_save_steps, 0);
  RequireAtLeast("early-stopping", FLAGS_early_stopping, 0);
  RequireAtLeast("eval-steps", FLAGS_eval_steps, 0);
  if (!(FLAGS_label_smoothing >= 0 && FLAGS_label_smoothing < 1)) {
    ThrowInvalid("label-smoothing", StrCat("is ", FLAGS_label_smoothing,
                                           "; it must be from 0 to below 1: at 1 all labels are alike"));
  }
  if (!(FLAGS_clip_global_norm >= 0 && std::isfinite(FLAGS_clip_global_norm)))
    ThrowInvalid("clip-global-norm",
                 StrCat("is ", FLAGS_clip_global_norm, "; it must be a number from 0 on"));
  if (!(FLAGS_lr_plateau >= 0 && FLAGS_lr_plateau < 1))
    ThrowInvalid("lr-plateau", StrCat("is ", FLAGS_lr_plateau, "; it must be from 0 to below 1"));
  CompressionOfPushes();
  LearningRate();
  Momentum();
  RequireAtLeast("load-epoch", FLAGS_load_epoch, 0);
  RequireAtLeast("top-k", FLAGS_top_k, 0);
  RequireBetween("loader-threads", FLAGS_loader_threads, 1, 256);
  RequireAtLeast("seed", FLAGS_seed, 0);
}

// Refuses combinations of flags: those where one needs another, and those that exclude each other.
void CheckTogether() {
  if (FLAGS_clip_global_norm > 0 && IsAsync())
    ThrowInvalid("clip-global-norm",
                 StrCat("needs steps that all workers share; ", FLAGS_kv_store, " has none"));
  if (CompressionOfPushes().type != Compression::kNone && !IsDistributed())
    ThrowInvalid("gc-type", StrCat("is ", FLAGS_gc_type, ", but --kv-store ", FLAGS_kv_store,
                                   " sends nothing anywhere"));
  if (CompressionOfPushes().weights != Compression::kNone && !IsDistributed())
    ThrowInvalid("gc-weights", StrCat("is ", FLAGS_gc_weights, ", but --kv-store ", FLAGS_kv_store,
                                      " brings nothing from anywhere"));
  if (FLAGS_load_epoch > 0 && FLAGS_model_prefix.empty()) ThrowInvalid("load-epoch", "needs --model-prefix");
  if (FLAGS_load_epoch > 0 && !FLAGS_load_params.empty())
    ThrowInvalid("load-epoch", "and --load-params both say where to start; give one of them");
  if ((FLAGS_resume || FLAGS_save_steps > 0) && FLAGS_model_prefix.empty())
    ThrowInvalid(FLAGS_resume ? "resume" : "save-steps", "needs --model-prefix");
  if (FLAGS_resume && FLAGS_load_epoch > 0)
    ThrowInvalid("resume", "and --load-epoch both say where to go on; give one of them");
  if (!FLAGS_class_weights.empty() && !FLAGS_shuffle)
    ThrowInvalid("class-weights", "draws the samples of an epoch; --shuffle=false keeps their order");
}

}  // namespace

bool IsGiven(const char* flag) {
  return !gflags::GetCommandLineFlagInfoOrDie(flag).is_default;
}

void ThrowInvalid(const std::string& flag, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, StrCat("flag --", flag, " ", why, "; --help lists every flag"));
}

void RequireAtLeast(const std::string& flag, int64_t value, int64_t least) {
  if (value < least) ThrowInvalid(flag, StrCat("is ", value, "; it must be at least ", least));
}

void RequireBetween(const std::string& flag, int64_t value, int64_t least, int64_t most) {
  RequireAtLeast(flag, value, least);
  if (value > most) ThrowInvalid(flag, StrCat("is ", value, "; it must be at most ", most));
}

void RequireOneOf(const std::string& flag, const std::string& value,
                  const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), value) == choices.end())
    ThrowInvalid(flag, StrCat("is '", value, "'; it takes ", StrJoin(choices)));
}

DType WeightType() {
  return FLAGS_dtype == "bfloat16" ? DType::kBFloat16 : DType::kFloat32;
}

void ParseFlags(int argc, char** argv, const Program& program) {
  for (const auto& [flag, value] : program.defaults)
    gflags::SetCommandLineOptionWithMode(flag.c_str(), value.c_str(), gflags::SET_FLAGS_DEFAULT);
  sluice::ParseFlags(argc, argv, program.usage);
  CheckNumbers();
  RequireOneOf("network", FLAGS_network, program.networks);
  RequireOneOf("dtype", FLAGS_dtype, {"float32", "bfloat16"});
  CheckTogether();
  LastBatchPolicy();
  LrStepEpochs();
  if (!IsBalanced()) WeightsByClass();
  CheckPlacement();
  const auto devices = static_cast<int64_t>(Contexts().size());
  const auto loads = static_cast<int64_t>(WorkLoads().size());
  if (loads > 0 && loads != devices)
    ThrowInvalid("work-load-list", StrCat("has ", loads, " shares for ", devices, " devices"));
}

std::vector<Context> Contexts() {
  if (!FLAGS_gpus.empty()) return Gpus();
  RequireBetween("num-devices", FLAGS_num_devices, 1, 256);
  std::vector<Context> contexts;
  for (int i = 0; i < FLAGS_num_devices; ++i) contexts.push_back(cpu(i));
  return contexts;
}

std::vector<double> WorkLoads() {
  return Numbers("work-load-list", FLAGS_work_load_list);
}

std::vector<int64_t> DeviceMemory(size_t devices) {
  std::vector<double> mebibytes = Numbers("device-memory", FLAGS_device_memory);
  if (mebibytes.size() == 1) mebibytes.resize(devices, mebibytes.front());
  if (!mebibytes.empty() && mebibytes.size() != devices)
    ThrowInvalid("device-memory", StrCat("has ", mebibytes.size(), " numbers for ", devices,
                                         " devices; it takes one for all or one for each"));
  std::vector<int64_t> bytes;
  for (const double each : mebibytes) bytes.push_back(std::llround(std::min(each, 1e12) * (1 << 20)));
  return bytes;
}

std::optional<double> LearningRate() {
  return NumberOrNothing("lr", FLAGS_lr);
}

std::optional<double> Momentum() {
  return NumberOrNothing("mom", FLAGS_mom);
}

std::vector<double> LrStepEpochs() {
  const std::vector<double> epochs = Numbers("lr-step-epochs", FLAGS_lr_step_epochs);
  if (std::adjacent_find(epochs.begin(), epochs.end(), std::greater_equal()) != epochs.end())
    ThrowInvalid("lr-step-epochs", StrCat("is '", FLAGS_lr_step_epochs, "'; the epochs must ascend"));
  return epochs;
}

LastBatch LastBatchPolicy() {
  RequireOneOf("last-batch", FLAGS_last_batch, {"keep", "discard", "rollover"});
  return *LastBatchOf(FLAGS_last_batch);
}

std::vector<double> ClassWeights(const Dataset& train) {
  if (IsBalanced()) return BalancedClassWeights(train);
  std::vector<double> weights = WeightsByClass();
  const auto count = static_cast<int64_t>(weights.size());
  if (count > 0 && count != train.num_classes())
    ThrowInvalid("class-weights",
                 StrCat("has ", Counted(count, "weight"), "; there are ", train.num_classes(), " classes"));
  return weights;
}

GradientCompression CompressionOfPushes() {
  RequireOneOf("gc-type", FLAGS_gc_type, {"none", "2bit", "1bit", "fp16", "bf16", "topk"});
  RequireOneOf("gc-weights", FLAGS_gc_weights, {"none", "fp16", "bf16"});
  const GradientCompression compression{.type = CompressionFromName(FLAGS_gc_type),
                                        .weights = CompressionFromName(FLAGS_gc_weights),
                                        .threshold = static_cast<float>(FLAGS_gc_threshold),
                                        .ratio = static_cast<float>(FLAGS_gc_ratio)};
  if (!std::isfinite(compression.threshold))
    ThrowInvalid("gc-threshold", StrCat("is ", FLAGS_gc_threshold, "; it must fit float32"));
  if (compression.type == Compression::k2Bit && !(compression.threshold > 0))
    ThrowInvalid("gc-threshold", StrCat("is ", FLAGS_gc_threshold, "; 2bit needs one above 0"));
  if (!(compression.ratio > 0 && compression.ratio <= 1))
    ThrowInvalid("gc-ratio", StrCat("is ", FLAGS_gc_ratio, "; it must be above 0 and at most 1"));
  return compression;
}

bool TrainsAfter(int64_t epoch, int64_t step) {
  return FLAGS_num_steps >= 0 ? step < FLAGS_num_steps : epoch < FLAGS_num_epochs;
}

bool IsAsync() {
  return StoreType::Parse(FLAGS_kv_store).async;
}

bool IsDistributed() {
  return StoreType::Parse(FLAGS_kv_store).distributed;
}

}  // namespace sluice::examples
