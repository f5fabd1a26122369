// Trains a network on MNIST, or on synthetic digits if --data-dir is empty. The same program runs on one
// device or several, in one process or in a job.
//
//   build/bin/train_mnist --network lenet
//   tools/launch.py -n 2 -s 2 build/bin/train_mnist --network lenet --kv-store dist_sync
#include "common/flags.h"
#include "common/training.h"
#include "sluice/models.h"
#include "sluice/nn.h"
#include "sluice/runtime.h"

DEFINE_string(network, "mlp", "Which network: mlp, lenet, lenet_avg, gluon_lenet, linear.");
DEFINE_string(data_dir, "", "Folder with MNIST's four IDX files (get_mnist.py). Empty: synthetic digits.");

namespace {

using namespace sluice;

const examples::Program kProgram = {.usage = "Trains a network on MNIST or on synthetic digits.",
                                    .networks = {"mlp", "lenet", "lenet_avg", "gluon_lenet", "linear"},
                                    .defaults = {},
                                    .rates = {{"sgd", 0.05}, {"nag", 0.05}, {"signum", 0.001}}};

nn::Sequential Network() {
  if (FLAGS_network != "linear") return nn::CreateModel(FLAGS_network);
  nn::Sequential net;  // softmax regression
  net.Add("flatten", nn::Flatten()).Add("fc", nn::Dense(10));
  return net;
}

examples::Data Digits() {
  if (FLAGS_data_dir.empty()) {
    return {SyntheticDigits(Subset::kTrain, 0, FLAGS_num_examples),
            SyntheticDigits(Subset::kTest, 0, FLAGS_num_test_examples), "synthetic digits"};
  }
  return examples::Part(
      {LoadMnist(FLAGS_data_dir, Subset::kTrain), LoadMnist(FLAGS_data_dir, Subset::kTest), FLAGS_data_dir});
}

}  // namespace

int main(int argc, char** argv) {
  RestartWithBriefSpins(argc, argv);
  return RunProgram(argc, argv, [&] {
    examples::ParseFlags(argc, argv, kProgram);
    examples::Train(kProgram, Network, Digits());
  });
}
