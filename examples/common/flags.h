// The command-line flags that every training program takes, and their values as typed C++ objects.
#pragma once

#include <gflags/gflags.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sluice/compression.h"
#include "sluice/context.h"
#include "sluice/data.h"
#include "sluice/dtype.h"

DECLARE_string(network);   // defined by each program, whose help text lists its networks
DECLARE_string(data_dir);  // defined by each program, whose help text names the files of the folder

DECLARE_string(kv_store);
DECLARE_string(dtype);
DECLARE_int64(batch_size);
DECLARE_int64(num_epochs);
DECLARE_int64(num_steps);
DECLARE_string(lr);
DECLARE_double(lr_factor);
DECLARE_string(lr_step_epochs);
DECLARE_double(lr_plateau);
DECLARE_string(optimizer);
DECLARE_string(mom);
DECLARE_double(wd);
DECLARE_int64(disp_batches);
DECLARE_string(model_prefix);
DECLARE_int64(save_period);
DECLARE_int64(save_steps);
DECLARE_bool(resume);
DECLARE_string(best_params);
DECLARE_int64(early_stopping);
DECLARE_string(report);
DECLARE_int64(eval_steps);
DECLARE_double(label_smoothing);
DECLARE_double(clip_global_norm);
DECLARE_string(gc_type);
DECLARE_double(gc_threshold);
DECLARE_double(gc_ratio);
DECLARE_string(gc_weights);
DECLARE_int64(load_epoch);
DECLARE_int64(top_k);
DECLARE_int64(num_examples);
DECLARE_int64(num_test_examples);
DECLARE_string(class_weights);
DECLARE_int64(loader_threads);
DECLARE_int64(seed);
DECLARE_bool(shuffle);
DECLARE_string(load_params);
DECLARE_string(save_params);
DECLARE_string(json);
DECLARE_string(trace);

namespace sluice::examples {

// Returns whether the command line has set the flag, whose name has underscores.
bool IsGiven(const char* flag);
// Throws Error(kInvalidArgument) with the message "flag --<flag> <why>; ...".
[[noreturn]] void ThrowInvalid(const std::string& flag, const std::string& why);
// These three call ThrowInvalid unless `value` is in range (bounds included), or one of `choices`.
void RequireAtLeast(const std::string& flag, int64_t value, int64_t least);
void RequireBetween(const std::string& flag, int64_t value, int64_t least, int64_t most);
void RequireOneOf(const std::string& flag, const std::string& value, const std::vector<std::string>& choices);

// Returns the values that --optimizer takes: all names but accumulate, which has no learning rate.
std::vector<std::string> TrainingOptimizers();

// What distinguishes one training program from the others.
struct Program {
  std::string usage;                  // the first line of --help
  std::vector<std::string> networks;  // the values that --network takes
  // Flags of this file whose default is another one in this program: pairs of flag and default.
  std::vector<std::pair<std::string, std::string>> defaults;
  // Learning rates that this program uses when --lr is empty. A key is "OPTIMISER" or "NETWORK OPTIMISER";
  // the longer one has precedence, and an optimiser without an entry uses its own default.
  std::map<std::string, double> rates = {};
  std::set<std::string> unfit = {};  // optimisers that were seen to learn nothing here at any learning rate
};
// Returns the type of weights and gradients: the value of --dtype.
DType WeightType();
// Parses the command line. Throws Error(kInvalidArgument) for every error that can be recognised before the
// data is read.
void ParseFlags(int argc, char** argv, const Program& program);

// These functions return the flags' values. They throw Error(kInvalidArgument) if a value is not valid.
std::vector<Context> Contexts();  // the devices to train on; CPU contexts share the process's cores
std::vector<double> WorkLoads();  // share of a batch by context; empty: equal shares
// Returns the bytes of --device-memory by device; empty: there is no bound.
std::vector<int64_t> DeviceMemory(size_t devices);
std::optional<double> LearningRate();  // nullopt: use the default of the program or the optimiser
std::optional<double> Momentum();      // nullopt: likewise
std::vector<double> LrStepEpochs();    // ascending
LastBatch LastBatchPolicy();
std::vector<double> ClassWeights(const Dataset& train);  // by class; empty: every sample once per epoch
// Returns whether anything is left to train after `epoch` epochs, or, with --num-steps, after `step` steps.
bool TrainsAfter(int64_t epoch, int64_t step = 0);
GradientCompression CompressionOfPushes();
bool IsAsync();        // whether --kv-store is asynchronous
bool IsDistributed();  // whether --kv-store is one of the dist_* stores

}  // namespace sluice::examples
