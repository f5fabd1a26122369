// Trains ResNet-20 (He, Zhang, Ren, Sun 2016) or a smaller network on CIFAR-10, or on synthetic pictures if
// --data-dir is empty. The same program runs on one device or several, in one process or in a job.
//
//   tools/get_cifar10.py --out data/cifar10
//   build/bin/train_cifar10 --data-dir data/cifar10 --num-epochs 164 --lr-step-epochs 82,123
//   tools/launch.py -n 2 -s 2 build/bin/train_cifar10 --kv-store dist_sync
#include "common/flags.h"
#include "common/training.h"
#include "sluice/models.h"
#include "sluice/runtime.h"

DEFINE_string(network, "resnet20", "Which network: resnet20, mlp, lenet, lenet_avg, gluon_lenet.");
DEFINE_string(data_dir, "",
              "Folder with CIFAR-10's binary files (get_cifar10.py). Empty: synthetic pictures.");
DEFINE_bool(augment, true,
            "Whether to train on random 32x32 windows of the images with 4 pixels around them, half of them "
            "flipped.");

namespace {

using namespace sluice;
using namespace sluice::transforms;

const examples::Program kProgram = {.usage = "Trains a network on CIFAR-10 or on synthetic pictures.",
                                    .networks = {"resnet20", "mlp", "lenet", "lenet_avg", "gluon_lenet"},
                                    .defaults = {{"batch_size", "128"}},
                                    .rates = {{"sgd", 0.1},  // the paper's rate for ResNet-20
                                              {"signum", 0.001},
                                              {"mlp sgd", 0.01},
                                              {"mlp nag", 0.01},
                                              {"mlp rmsprop", 0.0001}}};

examples::Data Images() {
  if (FLAGS_data_dir.empty()) {
    return {SyntheticPictures(Subset::kTrain, 0, FLAGS_num_examples),
            SyntheticPictures(Subset::kTest, 0, FLAGS_num_test_examples), "synthetic pictures"};
  }
  return examples::Part({LoadCifar10(FLAGS_data_dir, Subset::kTrain),
                         LoadCifar10(FLAGS_data_dir, Subset::kTest), FLAGS_data_dir});
}

examples::Data Prepared(examples::Data data) {
  const TransformPtr normalize = Normalize({.4914f, .4822f, .4465f}, {.2470f, .2435f, .2616f});
  const TransformPtr augment =
      FLAGS_augment ? Compose({RandomCrop(32, 32, /*padding=*/4), RandomHorizontalFlip(), normalize})
                    : normalize;
  data.train = Transformed(data.train, augment, static_cast<uint64_t>(FLAGS_seed));
  data.test = Transformed(data.test, normalize);
  return data;
}

// Returns the initialiser of the ResNet paper for resnet20 (He, Zhang, Ren, Sun 2015, "Delving Deep into
// Rectifiers"), and null, which stands for Xavier(), for the other networks.
std::shared_ptr<const nn::Initializer> Initializer() {
  if (FLAGS_network != "resnet20") return nullptr;
  return std::make_shared<nn::Xavier>(nn::RandomType::kGaussian, nn::FactorType::kIn, 2);
}

}  // namespace

int main(int argc, char** argv) {
  RestartWithBriefSpins(argc, argv);
  return RunProgram(argc, argv, [&] {
    examples::ParseFlags(argc, argv, kProgram);
    const auto network = [] { return nn::CreateModel(FLAGS_network); };
    examples::Train(kProgram, network, Prepared(Images()), Initializer());
  });
}
