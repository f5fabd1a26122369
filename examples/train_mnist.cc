// Trains a network on MNIST, or on synthetic digits when there is no --data-dir; on one device or many, in
// one process or a job.
//
//   build/bin/train_mnist --network lenet
//   tools/launch.py -n 2 -s 2 build/bin/train_mnist --network lenet --kv-store dist_sync
#include "common/flags.h"
#include "common/training.h"
#include "sluice/models.h"
#include "sluice/runtime.h"

DEFINE_string(network, "mlp", "Which network: mlp, lenet, lenet_avg, gluon_lenet.");
DEFINE_string(data_dir, "",
              "Folder with MNIST's four IDX files (tools/get_mnist.py). Empty: synthetic digits.");

namespace {

using namespace sluice;

const examples::Program kProgram = {.usage = "Trains a network on MNIST or on synthetic digits.",
                                    .networks = {"mlp", "lenet", "lenet_avg", "gluon_lenet"},
                                    .defaults = {}};

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
  return RunProgram(argc, argv, [&] {
    examples::ParseFlags(argc, argv, kProgram);
    nn::Sequential net = nn::CreateModel(FLAGS_network);
    examples::Train(net, Digits());
  });
}
