// Trains on several devices of one machine in four steps: list the devices, split each batch over them, run
// forward and backward on each device, and let a Trainer sum the gradients and update the parameters.
//
//   build/bin/multi_device
#include <gflags/gflags.h>

#include <iostream>

#include "sluice/fit.h"
#include "sluice/flags.h"
#include "sluice/loss.h"
#include "sluice/metric.h"
#include "sluice/runtime.h"
#include "sluice/split.h"
#include "sluice/trainer.h"

DEFINE_int64(num_epochs, 5, "How often to go through the training digits.");
DEFINE_int64(num_examples, 20000, "How many training digits; a multiple of 100, the batch size.");

namespace {

using namespace sluice;

constexpr int64_t kBatchSize = 100;

nn::Sequential Network() {
  nn::Sequential net;
  net.Add(nn::Conv2D(8, 5, {.in_channels = 1})).Add(nn::Activation::Relu()).Add(nn::MaxPool2D(2));
  net.Add(nn::Dense(64, {.in_units = 8 * 12 * 12})).Add(nn::Activation::Relu());
  net.Add(nn::Dense(10, {.in_units = 64}));
  return net;
}

void Train() {
  // 1. List the devices, and initialise the network's parameters on each of them.
  const std::vector<Context> contexts = {cpu(0), cpu(1)};
  nn::Sequential net = Network();
  net.CollectParams().Initialize(contexts);
  Trainer trainer(net.CollectParams(), {.learning_rate = 0.1, .momentum = 0.9}, KVStore::Create("device"));

  const nn::SoftmaxCrossEntropyLoss criterion;
  DataLoader loader(SyntheticDigits(Subset::kTrain, 0, FLAGS_num_examples), {.batch_size = kBatchSize});
  const auto test = SyntheticDigits(Subset::kTest);
  for (int64_t epoch = 1; epoch <= FLAGS_num_epochs; ++epoch) {
    metric::Loss loss;
    for (int64_t step = 0; step < loader.steps_per_epoch(); ++step) {
      // 2. Split the batch: SplitAndLoad copies one part to each device.
      const Batch batch = *loader.Next();
      const std::vector<float> classes(batch.labels.begin(), batch.labels.end());
      const auto images = SplitAndLoad(NDArray::From(batch.samples, batch.shape), contexts);
      const auto labels = SplitAndLoad(NDArray::From(classes, {batch.size()}), contexts);

      // 3. Run forward and backward. Both only queue work and return at once, so that the devices compute at
      // the same time.
      std::vector<NDArray> losses;
      {
        const autograd::RecordScope record;
        for (size_t i = 0; i < contexts.size(); ++i) {
          losses.push_back(criterion(net(images[i]), labels[i]));
        }
      }
      autograd::Backward(losses);

      // 4. Update: Step sums the gradients over the devices, divides the sum by the batch size, and updates
      // the parameters on every device.
      trainer.Step(batch.size());
      loss.Update(labels, losses);
    }
    std::cout << "epoch " << epoch << " loss " << loss.value() << " test accuracy "
              << Evaluate(net, *test, contexts).score << std::endl;
  }
}

void CheckFlags() {
  if (FLAGS_num_epochs < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                "flag --num-epochs is " + std::to_string(FLAGS_num_epochs) + "; it must be at least 1");
  }
  if (FLAGS_num_examples < kBatchSize || FLAGS_num_examples % kBatchSize != 0) {
    throw Error(ErrorCode::kInvalidArgument, "flag --num-examples is " + std::to_string(FLAGS_num_examples) +
                                                 "; it must be a multiple of " + std::to_string(kBatchSize));
  }
}

}  // namespace

int main(int argc, char** argv) {
  sluice::RestartWithBriefSpins(argc, argv);
  return sluice::RunProgram(argc, argv, [&] {
    ParseFlags(argc, argv, "Trains a small network on two devices, step by step.");
    CheckFlags();
    Train();
  });
}
