// Trains a network on MNIST, or on synthetic digits when there is no --data-dir; on one device or many, in
// one process or a job.
//
//   build/bin/train_mnist --network lenet
//   tools/launch.py -n 2 -s 2 build/bin/train_mnist --network lenet --kv-store dist_sync
#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/strings.h"
#include "runtime/flags.h"
#include "runtime/runtime.h"
#include "sluice/checkpoint.h"
#include "sluice/error.h"
#include "sluice/fit.h"
#include "sluice/models.h"
#include "sluice/parameters_file.h"
#include "sluice/runtime.h"
#include "tensor/devices.h"

DEFINE_string(network, "mlp", "Which network: mlp, lenet, lenet_avg, gluon_lenet.");
DEFINE_string(
    kv_store, "local",
    "Type of the store: local, device, dist_sync, dist_device_sync, dist_async, dist_device_async.");
DEFINE_string(gpus, "", "GPUs to train on, for example 0,1. Empty: CPU.");
DEFINE_int32(num_devices, 1, "How many CPU contexts to train on; they share the cores.");
DEFINE_string(work_load_list, "", "Shares of the batch by device, for example 3,1,2. Empty: equal.");
DEFINE_int64(batch_size, 64, "Batch size of each worker.");
DEFINE_int64(num_epochs, 10,
             "How often to go through the training data, epochs before --load-epoch included.");
DEFINE_int64(
    num_steps, -1,
    "Train exactly this many steps in place of epochs, steps before --load-epoch or --resume included; -1: "
    "epochs count.");
DEFINE_double(lr, 0.05, "Learning rate.");
DEFINE_double(lr_factor, 0.1, "What the learning rate is multiplied by at each of --lr-step-epochs.");
DEFINE_string(lr_step_epochs, "",
              "Epochs of the data after which the learning rate drops, for example 10,15.");
DEFINE_string(
    optimizer, "sgd",
    "Optimiser: sgd, nag, adam, adamw, adagrad, rmsprop, ftrl, lamb, signum. They need rates of their "
    "own: 0.001 suits adam, adamw, rmsprop and signum.");
DEFINE_double(mom, 0.9, "Momentum of sgd, nag and signum.");
DEFINE_double(wd, 1e-4, "Weight decay.");
DEFINE_int64(disp_batches, 100, "Print a line every so many batches.");
DEFINE_string(model_prefix, "",
              "Save parameters as PREFIX-0001.safetensors and optimiser states as "
              "PREFIX-0001.states.safetensors, and so on, after epochs (rank 0).");
DEFINE_int64(save_period, 1, "Save every so many epochs.");
DEFINE_int64(
    save_steps, 0,
    "Save also every so many steps of an epoch, as PREFIX-0001-000200.safetensors; the newest two stay. 0: "
    "not within epochs.");
DEFINE_bool(
    resume, false,
    "Go on from the newest checkpoint of --model-prefix, to the last bit as if the run had never stopped; "
    "from the start when there is none.");
DEFINE_string(best_params, "",
              "Keep the parameters of the epoch with the best test accuracy in this file (rank 0).");
DEFINE_int64(early_stopping, 0, "End after so many epochs without a better test accuracy; 0: never.");
DEFINE_string(report, "", "Draw learning curves into this HTML file, rewritten after every epoch (rank 0).");
DEFINE_int64(eval_steps, 0, "Evaluate also every so many steps of an epoch; 0: after epochs only.");
DEFINE_int64(load_epoch, 0,
             "Go on after this epoch of --model-prefix: with its parameters, and its optimiser states where "
             "they are; --num-epochs is the number of the last epoch.");
DEFINE_int64(top_k, 0, "Report top-k accuracy too; 0: only accuracy.");
DEFINE_string(data_dir, "",
              "Folder with MNIST's four IDX files (tools/get_mnist.py). Empty: synthetic digits.");
DEFINE_int64(
    num_examples, -1,
    "Train on the first so many images of --data-dir, or on so many synthetic digits; -1: all, or 20000.");
DEFINE_int64(seed, 0, "Of the initial weights and the order of the samples.");
DEFINE_bool(shuffle, true, "Whether to shuffle the training data each epoch.");
DEFINE_string(load_params, "", "Start from this safetensors file.");
DEFINE_string(save_params, "", "Write the final parameters to this safetensors file (rank 0).");
DEFINE_string(json, "", "Write a report to this file (rank 0).");

namespace {

using namespace sluice;

constexpr int64_t kClasses = 10;  // of MNIST and of every network here

[[noreturn]] void Refuse(const std::string& flag, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, StrCat("flag --", flag, " ", why, "; --help lists every flag"));
}

void RequireAtLeast(const std::string& flag, int64_t value, int64_t least) {
  if (value < least) Refuse(flag, StrCat("is ", value, "; it must be at least ", least));
}

std::vector<double> Numbers(const std::string& flag, const std::string& text) {
  std::vector<double> numbers;
  for (const std::string& part : text.empty() ? std::vector<std::string>() : StrSplit(text, ',')) {
    const auto number = ParseFiniteDouble(StrTrim(part));
    if (!number || *number <= 0)
      Refuse(flag, StrCat("is '", text, "'; it takes positive numbers with commas between"));
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<Context> Gpus() {
  std::vector<Context> contexts;
  for (const std::string& part : StrSplit(FLAGS_gpus, ',')) {
    const auto id = ParseInt(StrTrim(part));
    if (!id || *id < 0 || *id > INT_MAX)
      Refuse("gpus", StrCat("is '", FLAGS_gpus, "'; it takes numbers of GPUs with commas between"));
    contexts.push_back(gpu(static_cast<int>(*id)));
  }
  try {
    for (const Context& context : contexts) Devices::Default()->Get(context);
  } catch (const Error& error) {
    Refuse("gpus", StrCat("is '", FLAGS_gpus, "': ", error.what()));
  }
  return contexts;
}

std::vector<Context> Contexts() {
  if (!FLAGS_gpus.empty()) return Gpus();
  RequireAtLeast("num-devices", FLAGS_num_devices, 1);
  std::vector<Context> contexts;
  for (int i = 0; i < FLAGS_num_devices; ++i) contexts.push_back(cpu(i));
  const int threads = std::max(1, runtime::Runtime::Default()->config().cpu_threads / FLAGS_num_devices);
  Devices::Default()->SetThreadsPerCpuContext(threads);
  return contexts;
}

bool IsAsync() {
  return FLAGS_kv_store.find("async") != std::string::npos;
}

// The step of the schedule that ends the given epoch of the data. It counts on from the updates that the
// loaded states have seen, with today's steps per epoch: batch size and workers may have been others before.
// What has passed ends at 0 at the earliest, without states: then it holds from the first step on.
int64_t LastStepOf(double epoch, const LoadedCheckpoint& start, int64_t steps_per_epoch, int workers) {
  const int64_t updates_per_step = IsAsync() ? workers : 1;
  const int64_t done = (start.updates + updates_per_step - 1) / updates_per_step;
  const double ahead =
      (epoch - static_cast<double>(start.next.epoch)) * static_cast<double>(steps_per_epoch) -
      static_cast<double>(start.next.step);
  return std::max<int64_t>(0, done + static_cast<int64_t>(ahead));
}

OptimizerConfig Optimizer(const LoadedCheckpoint& start, int64_t steps_per_epoch, int workers) {
  const auto kind = OptimizerKindOf(FLAGS_optimizer);
  if (!kind || *kind == OptimizerKind::kAccumulate) {  // which knows no learning rate
    Refuse("optimizer", StrCat("is '", FLAGS_optimizer,
                               "'; it takes sgd, nag, adam, adamw, adagrad, rmsprop, ftrl, lamb or signum"));
  }
  OptimizerConfig config{.kind = *kind, .learning_rate = FLAGS_lr};
  const bool takes_momentum =
      *kind == OptimizerKind::kSgd || *kind == OptimizerKind::kNag || *kind == OptimizerKind::kSignum;
  config.momentum = takes_momentum ? FLAGS_mom : 0;  // as MXNet's program, whose rmsprop has none
  config.wd = FLAGS_wd;
  for (const double epoch : Numbers("lr-step-epochs", FLAGS_lr_step_epochs)) {
    config.schedule.kind = LrScheduleKind::kMultiFactor;
    config.schedule.factor = FLAGS_lr_factor;
    config.schedule.steps.push_back(LastStepOf(epoch, start, steps_per_epoch, workers));
  }
  if (const std::string why = WhyInvalid(config); !why.empty()) {
    throw Error(ErrorCode::kInvalidArgument, why + " (--lr, --mom, --wd, --lr-factor, --lr-step-epochs)");
  }
  return config;
}

void WarnOfOptimizer() {
  if (FLAGS_optimizer == "ftrl") {
    std::cerr << WrapMessage(
                     "warning: ftrl begins from weights of 0, whatever they were; it is for linear "
                     "models, and networks with hidden layers learn nothing from there.")
              << std::endl;
  }
  if (IsAsync() && FLAGS_lr >= 0.05 && FLAGS_mom >= 0.9) {
    std::cerr
        << WrapMessage(StrCat(
               "warning: ", FLAGS_kv_store, " with --lr ", FLAGS_lr, " and --mom ", FLAGS_mom,
               " is known to diverge: every worker's push moves the weights on its own. --lr 0.01 works."))
        << std::endl;
  }
}

// Before hours of training, not after.
void RequirePlaceFor(const std::string& flag, const std::string& file) {
  const std::filesystem::path path = file, folder = path.has_parent_path() ? path.parent_path() : ".";
  const auto refuse = [&](const std::string& why) {
    Refuse(flag, StrCat("cannot write '", file, "': ", why));
  };
  if (std::filesystem::is_directory(path)) refuse("it is a folder");
  if (!std::filesystem::is_directory(folder)) refuse(StrCat("there is no folder '", folder.string(), "'"));
  if (access(folder.c_str(), W_OK) != 0) refuse(StrCat("no file can be made in '", folder.string(), "'"));
}

void CheckOutputs() {
  if (!FLAGS_save_params.empty()) RequirePlaceFor("save-params", FLAGS_save_params);
  if (!FLAGS_model_prefix.empty())
    RequirePlaceFor("model-prefix", CheckpointFile(FLAGS_model_prefix, {FLAGS_load_epoch + 1, 0}));
  if (!FLAGS_json.empty()) RequirePlaceFor("json", FLAGS_json);
  if (!FLAGS_best_params.empty()) RequirePlaceFor("best-params", FLAGS_best_params);
  if (!FLAGS_report.empty()) RequirePlaceFor("report", FLAGS_report);
}

void CheckFlags() {
  RequireAtLeast("batch-size", FLAGS_batch_size, 1);
  if (FLAGS_num_examples != -1) RequireAtLeast("num-examples", FLAGS_num_examples, 1);
  RequireAtLeast("num-epochs", FLAGS_num_epochs, 0);
  RequireAtLeast("num-steps", FLAGS_num_steps, -1);
  RequireAtLeast("disp-batches", FLAGS_disp_batches, 0);
  RequireAtLeast("save-period", FLAGS_save_period, 1);
  RequireAtLeast("save-steps", FLAGS_save_steps, 0);
  RequireAtLeast("early-stopping", FLAGS_early_stopping, 0);
  RequireAtLeast("eval-steps", FLAGS_eval_steps, 0);
  RequireAtLeast("load-epoch", FLAGS_load_epoch, 0);
  RequireAtLeast("top-k", FLAGS_top_k, 0);
  if (FLAGS_top_k > kClasses)
    Refuse("top-k", StrCat("is ", FLAGS_top_k, "; there are ", kClasses, " classes"));
  RequireAtLeast("seed", FLAGS_seed, 0);
  const std::vector<std::string> names = {"mlp", "lenet", "lenet_avg", "gluon_lenet"};  // of one grey image
  if (std::find(names.begin(), names.end(), FLAGS_network) == names.end()) {
    Refuse("network", StrCat("is '", FLAGS_network, "'; it takes ", StrJoin(names)));
  }
  if (FLAGS_load_epoch > 0 && FLAGS_model_prefix.empty()) Refuse("load-epoch", "needs --model-prefix");
  if (FLAGS_load_epoch > 0 && !FLAGS_load_params.empty())
    Refuse("load-epoch", "and --load-params both say where to start; give one of them");
  if ((FLAGS_resume || FLAGS_save_steps > 0) && FLAGS_model_prefix.empty())
    Refuse(FLAGS_resume ? "resume" : "save-steps", "needs --model-prefix");
  if (FLAGS_resume && FLAGS_load_epoch > 0)
    Refuse("resume", "and --load-epoch both say where to go on; give one of them");
  const auto loads = Numbers("work-load-list", FLAGS_work_load_list);
  if (!loads.empty() && loads.size() != static_cast<size_t>(FLAGS_num_devices)) {
    Refuse("work-load-list", StrCat("has ", loads.size(), " shares for ", FLAGS_num_devices, " devices"));
  }
}

// Before the first step: afresh, from --load-params, or after --load-epoch.
LoadedCheckpoint Start(const nn::ParameterDict& parameters) {
  if (!FLAGS_load_params.empty()) LoadParameters(FLAGS_load_params, parameters);
  return FLAGS_load_epoch > 0 ? LoadCheckpoint(FLAGS_model_prefix, {FLAGS_load_epoch, 0}, parameters)
                              : LoadedCheckpoint();
}

// The newest checkpoint, or `start` where there is none. Only rank 0 looks: the others learn from it where to
// go on, and their first weights from the store.
LoadedCheckpoint Resume(const LoadedCheckpoint& start, const nn::ParameterDict& parameters, KVStore& store) {
  LoadedCheckpoint loaded = start;
  if (store.rank() == 0) {
    const auto found = ListCheckpoints(FLAGS_model_prefix);
    if (!found.empty()) loaded = LoadCheckpoint(FLAGS_model_prefix, found.back(), parameters);
  }
  const nlohmann::json mine = {loaded.next.epoch, loaded.next.step, loaded.step, loaded.updates,
                               loaded.states};
  const auto word = nlohmann::json::parse(store.Agree(mine.dump()));
  word[0].get_to(loaded.next.epoch);
  word[1].get_to(loaded.next.step);
  word[2].get_to(loaded.step);
  word[3].get_to(loaded.updates);
  word[4].get_to(loaded.states);
  return loaded;
}

void TellStart(const LoadedCheckpoint& start) {
  if (start.next == Position()) return;
  std::cout << WrapMessage(
                   StrCat("goes on after epoch ", start.next.epoch,
                          start.next.step > 0 ? StrCat(" and ", start.next.step, " steps") : "", ", with ",
                          start.states.empty() ? "optimiser states of zero: none were saved" : start.states))
            << std::endl;
  if (start.next.epoch >= FLAGS_num_epochs && FLAGS_num_steps < 0)
    std::cout << "nothing is left to train: --num-epochs is " << FLAGS_num_epochs << std::endl;
  if (start.has_position &&
      (start.seed != static_cast<uint64_t>(FLAGS_seed) || start.shuffle != FLAGS_shuffle)) {
    const auto order = [](uint64_t seed, bool shuffle) {
      return StrCat("--seed ", seed, " --shuffle=", shuffle ? "true" : "false");
    };
    std::cerr << WrapMessage(StrCat("warning: the epochs before were trained with ",
                                    order(start.seed, start.shuffle),
                                    "; the order of samples goes on as that of ",
                                    order(static_cast<uint64_t>(FLAGS_seed), FLAGS_shuffle)))
              << std::endl;
  }
}

std::vector<CallbackPtr> Callbacks() {
  std::vector<CallbackPtr> callbacks;
  // What they remember goes into a checkpoint: they come before it.
  if (!FLAGS_best_params.empty()) callbacks.push_back(KeepBest(FLAGS_best_params));
  if (FLAGS_early_stopping > 0) callbacks.push_back(StopEarly({.patience = FLAGS_early_stopping}));
  if (!FLAGS_report.empty())
    callbacks.push_back(WriteReport(FLAGS_report, StrCat(FLAGS_network, ", ", FLAGS_kv_store)));
  if (!FLAGS_model_prefix.empty())
    callbacks.push_back(
        SaveEvery(FLAGS_model_prefix, {.epochs = FLAGS_save_period, .steps = FLAGS_save_steps}));
  return callbacks;
}

void WriteJson(const FitReport& report, const KVStore& store, int num_servers) {
  const nlohmann::json json = {{"test_accuracy", report.test_accuracy},
                               {"test_loss", report.test_loss},
                               {"train_loss", report.train_loss},
                               {"images_per_sec", report.images_per_sec},
                               {"steps", report.steps},
                               {"epochs", report.epochs},
                               {"kv_store", store.type()},
                               {"num_workers", store.num_workers()},
                               {"num_servers", num_servers},
                               {"network", FLAGS_network},
                               {"batch_size", FLAGS_batch_size}};
  const std::string text = json.dump(2) + "\n";
  const Bytes bytes = AsBytes(text);
  WriteFileAtomically(FLAGS_json, std::span(&bytes, 1)).OrThrow();
}

std::shared_ptr<const Dataset> TrainingData() {
  const int64_t count = FLAGS_num_examples;
  if (FLAGS_data_dir.empty()) return SyntheticDigits(Subset::kTrain, 0, count);
  const std::shared_ptr<const Dataset> all = LoadMnist(FLAGS_data_dir, Subset::kTrain);
  if (count > all->size())
    Refuse("num-examples", StrCat("is ", count, "; there are ", all->size(), " images in ", FLAGS_data_dir));
  return count < 0 ? all : Take(all, count);
}

void Train() {
  CheckFlags();
  const std::vector<Context> contexts = Contexts();
  nn::Sequential net = nn::CreateModel(FLAGS_network);
  const auto seed = static_cast<uint64_t>(FLAGS_seed);
  const std::shared_ptr<const Dataset> train = TrainingData();
  const auto test =
      FLAGS_data_dir.empty() ? SyntheticDigits(Subset::kTest) : LoadMnist(FLAGS_data_dir, Subset::kTest);
  net.CollectParams().Initialize(contexts, nullptr, seed);
  LoadedCheckpoint start = Start(net.CollectParams());
  WarnOfOptimizer();

  // Flags are checked in full before the job is joined.
  SamplerConfig sampler{train->size(), FLAGS_batch_size, seed, FLAGS_shuffle};
  const auto& job = runtime::Runtime::Default()->config();
  const int workers = FLAGS_kv_store.starts_with("dist") ? job.num_workers : 1;
  OptimizerConfig optimizer = Optimizer(start, StepsPerEpoch(sampler, workers), workers);
  const auto store = KVStore::Create(FLAGS_kv_store);
  const bool leader = store->rank() == 0;
  if (leader) CheckOutputs();  // before anything is read from their folders
  if (FLAGS_resume) {
    start = Resume(start, net.CollectParams(), *store);
    optimizer = Optimizer(start, StepsPerEpoch(sampler, workers), workers);
  }
  if (leader) {
    std::cout << FLAGS_network << " on " << (FLAGS_data_dir.empty() ? "synthetic digits" : FLAGS_data_dir)
              << ", " << train->size() << " images\n"
              << store->type() << ", " << Counted(store->num_workers(), "worker") << " x "
              << Counted(static_cast<int64_t>(contexts.size()), "device") << std::endl;
    TellStart(start);
  }
  FitOptions options;
  options.contexts = contexts;
  options.work_load = Numbers("work-load-list", FLAGS_work_load_list);
  options.batch_size = FLAGS_batch_size;
  options.num_epochs = FLAGS_num_epochs;
  options.num_steps = FLAGS_num_steps;
  options.start = start.next;
  options.start_step = start.step;
  options.memory = start.memory;
  options.optimizer_states = start.states;
  options.shuffle = FLAGS_shuffle;
  options.seed = seed;
  options.disp_batches = FLAGS_disp_batches;
  options.top_k = FLAGS_top_k;
  options.live_progress = true;
  options.eval_steps = FLAGS_eval_steps;
  options.callbacks = Callbacks();
  const FitReport report = Fit(net, train, test, optimizer, store, options);
  if (leader) {
    if (!FLAGS_save_params.empty()) SaveParameters(FLAGS_save_params, net.CollectParams());
    if (!FLAGS_json.empty()) WriteJson(report, *store, job.role ? job.num_servers : 0);
    std::cout << "final test accuracy " << std::fixed << std::setprecision(4) << report.test_accuracy
              << std::endl;
  }
  store->Barrier();
}

}  // namespace

int main(int argc, char** argv) {
  return sluice::RunProgram(argc, argv, [&] {
    sluice::runtime::ParseFlags(argc, argv, "Trains a network on MNIST or on synthetic digits.");
    Train();
  });
}
