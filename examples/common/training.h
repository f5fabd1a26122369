// A training run as the flags describe it: the same on one device, k devices and n workers.
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
  std::string name;                // "synthetic digits"
  std::string samples = "images";  // what they are called
  // What their numbers mean, such as words by id: saved with the parameters. A run goes on with the same.
  FileMetadata metadata = {};
};

// The samples of --data-dir that --num-examples and --num-test-examples ask for.
Data Part(Data all);

// Trains `net`, whose parameters have no values yet, prints what happens and writes what the flags ask for.
// `init` is for parameters that bring no initialiser of their own; null: Xavier().
void Train(const Program& program, nn::Layer& net, const Data& data,
           std::shared_ptr<const nn::Initializer> init = nullptr);

}  // namespace sluice::examples
