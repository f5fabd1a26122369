// The training run that the command-line flags describe. The same call trains on one device, on several
// devices of one process, and in a job of several workers.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/flags.h"
#include "sluice/data.h"
#include "sluice/initializer.h"
#include "sluice/loss.h"
#include "sluice/metric.h"
#include "sluice/nn.h"
#include "sluice/parameters_file.h"

namespace sluice::examples {

struct Data {
  std::shared_ptr<const Dataset> train, test;
  std::string name;                // for messages, such as "synthetic digits"
  std::string samples = "images";  // the plural noun for the samples
  // Says what the samples' numbers mean, such as the word of each id. It is saved with the parameters, and a
  // run continues from a checkpoint only with the same metadata.
  FileMetadata metadata = {};
  // Null: the softmax cross-entropy with --label-smoothing, and the accuracy.
  std::shared_ptr<const nn::Loss> loss = nullptr;
  metric::Factory metric = nullptr;
  int64_t eval_batch_size = 250;
  // A set that is evaluated once, after the run, when `test` is for the choice of parameters. May be null.
  std::shared_ptr<const Dataset> held_out = nullptr;
};

// Returns `all` cut to the first samples that --num-examples and --num-test-examples ask for. Throws
// Error(kInvalidArgument) if there are fewer, or if training and test samples differ in shape.
Data Part(Data all);

// Trains the network that `make` makes, prints the progress and writes the files that the flags ask for.
// Returns once all workers have finished. `init` initialises the parameters that have no initialiser of their
// own; null means Xavier(). Throws Error for bad flags and for every failure of the job.
void Train(const Program& program, const std::function<nn::Sequential()>& make, const Data& data,
           std::shared_ptr<const nn::Initializer> init = nullptr);

}  // namespace sluice::examples
