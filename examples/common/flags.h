// The flags that every training program takes.
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

DECLARE_string(network);   // defined by each program, with its networks
DECLARE_string(data_dir);  // defined by each program, with what lies there

DECLARE_string(kv_store);
DECLARE_string(dtype);
DECLARE_int64(batch_size);
DECLARE_int64(num_epochs);
DECLARE_int64(num_steps);
DECLARE_string(lr);
DECLARE_double(lr_factor);
DECLARE_string(lr_step_epochs);
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
DECLARE_int64(loader_threads);
DECLARE_int64(seed);
DECLARE_bool(shuffle);
DECLARE_string(load_params);
DECLARE_string(save_params);
DECLARE_string(json);

namespace sluice::examples {

// Throws Error(kInvalidArgument): "flag --<flag> <why>; ...".
[[noreturn]] void Refuse(const std::string& flag, const std::string& why);
void RequireAtLeast(const std::string& flag, int64_t value, int64_t least);
void RequireBetween(const std::string& flag, int64_t value, int64_t least, int64_t most);
// Unless the value is one of `choices`.
void RequireOneOf(const std::string& flag, const std::string& value, const std::vector<std::string>& choices);

struct Program {
  std::string usage;                                          // what --help begins with
  std::vector<std::string> networks;                          // that --network takes
  std::vector<std::pair<std::string, std::string>> defaults;  // of shared flags, where they are its own
  // Learning rates of its own, where --lr is empty: of an optimiser, or of "NETWORK OPTIMISER".
  std::map<std::string, double> rates = {};
  std::set<std::string> unfit = {};  // optimisers that have been seen to learn nothing, whatever the rate
};
// What --dtype names.
DType WeightType();
// Parses the command line and refuses what can be refused before the data is read.
void ParseFlags(int argc, char** argv, const Program& program);

// What the flags say.
std::vector<Context> Contexts();       // the cores are shared out among them
std::vector<double> WorkLoads();       // by context; empty: equal
std::optional<double> LearningRate();  // nullopt: what suits the optimiser
std::optional<double> Momentum();      // likewise
std::vector<double> LrStepEpochs();
LastBatch LastBatchPolicy();
std::vector<double> ClassWeights(const Dataset& train);  // by class; empty: none
bool TrainsAfter(int64_t epoch, int64_t step = 0);       // whether anything is left to train then
GradientCompression CompressionOfPushes();
bool IsAsync();  // the store
bool IsDistributed();

}  // namespace sluice::examples
