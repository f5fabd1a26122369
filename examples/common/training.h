// The training run that the command-line flags describe. The same call trains on one device, on several
// devices of one process, and in a job of several workers.
#pragma once

#include <memory>
#include <string>

#include "common/flags.h"
#include "sluice/data.h"
#include "sluice/initializer.h"
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
};

// Returns `all` cut to the first samples that --num-examples and --num-test-examples ask for. Throws
// Error(kInvalidArgument) if there are fewer, or if training and test samples differ in shape.
Data Part(Data all);

// Trains `net`, whose parameters must not be initialised yet, prints the progress and writes the files that
// the flags ask for. Returns once all workers have finished. `init` initialises the parameters that have no
// initialiser of their own; null means Xavier(). Throws Error for bad flags and for every failure of the job.
void Train(const Program& program, nn::Layer& net, const Data& data,
           std::shared_ptr<const nn::Initializer> init = nullptr);

}  // namespace sluice::examples
