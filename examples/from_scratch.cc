// Data parallelism without a KVStore, written with NDArrays only. Each device holds a copy of the parameters
// and computes gradients for its part of the batch; AllReduce sums the gradients over the devices; then every
// device takes the same SGD step, so that all copies stay equal. The example follows "Training on Multiple
// GPUs" in Zhang, Lipton, Li, Smola: Dive into Deep Learning (https://d2l.ai).
//
//   tools/get_mnist.py --dataset fashion-mnist --out data/fashion-mnist
//   build/bin/from_scratch --data-dir data/fashion-mnist --num-devices 1,2
#include <gflags/gflags.h>

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>

#include "common/text.h"
#include "sluice/autograd.h"
#include "sluice/data.h"
#include "sluice/flags.h"
#include "sluice/initializer.h"
#include "sluice/job.h"
#include "sluice/metric.h"
#include "sluice/ops.h"
#include "sluice/runtime.h"

DEFINE_string(data_dir, "",
              "Folder with Fashion-MNIST's or MNIST's four IDX files (get_mnist.py). Empty: synthetic "
              "digits.");
DEFINE_string(num_devices, "1,2", "Train once on each of these numbers of devices, from the same weights.");
DEFINE_int64(num_epochs, 10, "How often to go through the training data.");
DEFINE_int64(num_examples, -1, "How many training images; -1: all, of the synthetic ones 20000.");
DEFINE_int64(batch_size, 256, "Batch size of all devices together.");
DEFINE_double(lr, 0.2, "Learning rate.");
DEFINE_int64(seed, 0, "Seed of the initial weights and of the order of the samples.");

namespace {

using namespace sluice;
using examples::ParseInt;
using examples::StrCat;
using examples::StrSplit;
using examples::StrTrim;

constexpr int kMaxDevices = 64;
constexpr int64_t kTestBatch = 250;

using Params = std::vector<NDArray>;  // the parameters on one device: weight, bias, weight, bias, ...

const std::vector<Shape> kParamShapes = {{20, 1, 3, 3}, {20},  {50, 20, 5, 5}, {50},
                                         {128, 800},    {128}, {10, 128},      {10}};

// Returns the initial parameters on `device`, with arrays attached for their gradients. The values depend on
// --seed alone, so all devices start alike.
Params GetParams(Context device) {
  Params params;
  for (size_t i = 0; i < kParamShapes.size(); ++i) {
    const Shape& shape = kParamShapes[i];
    params.push_back(NDArray(shape, device));
    if (shape.ndim() > 1) {
      const auto values = nn::Xavier().Values(StrCat(i), shape, static_cast<uint64_t>(FLAGS_seed));
      params.back() = NDArray::From(values, shape, device);
    }
    autograd::AttachGrad(params.back());
  }
  return params;
}

NDArray Lenet(const NDArray& images, const Params& w) {
  const ops::Window2D pool{2, 2, 2, 2};
  NDArray h = ops::AvgPool2D(ops::Relu(ops::Conv2D(images, w[0], w[1])), pool);
  h = ops::AvgPool2D(ops::Relu(ops::Conv2D(h, w[2], w[3])), pool);
  h = ops::Relu(ops::Dense(ops::Flatten(h), w[4], w[5]));
  return ops::Dense(h, w[6], w[7]);
}

// Replaces each array by the sum of all of them. The arrays have the same shape and are on different devices:
// the first device adds them up, and the result is copied to the others.
void AllReduce(std::vector<NDArray> arrays) {
  for (size_t i = 1; i < arrays.size(); ++i) arrays[0] += arrays[i].AsInContext(arrays[0].context());
  for (size_t i = 1; i < arrays.size(); ++i) arrays[0].CopyTo(&arrays[i]);
}

// Cuts the rows of `batch` into parts of about the same size, one on each device.
std::vector<NDArray> SplitBatch(const NDArray& batch, const std::vector<Context>& devices) {
  const int64_t rows = batch.shape()[0], parts = static_cast<int64_t>(devices.size());
  std::vector<NDArray> shards;
  for (int64_t i = 0; i < parts; ++i) {
    const NDArray rows_of_device = batch.SliceRows(rows * i / parts, rows * (i + 1) / parts);
    shards.push_back(rows_of_device.AsInContext(devices[static_cast<size_t>(i)]));
  }
  return shards;
}

// w -= lr / batch_size * gradient. The gradient is a sum over the samples of the whole batch.
void Sgd(Params& params, double lr, int64_t batch_size) {
  const auto rate = static_cast<float>(lr / static_cast<double>(batch_size));
  for (NDArray& param : params) param -= autograd::Grad(param) * rate;
}

// Takes one step on a batch. Returns the losses of the samples, one array per device. Operators and Backward
// only queue work, so the loops below do not wait for one device before they start the next.
std::vector<NDArray> TrainBatch(const NDArray& images, const NDArray& labels,
                                std::vector<Params>& device_params, const std::vector<Context>& devices) {
  const std::vector<NDArray> image_shards = SplitBatch(images, devices);
  const std::vector<NDArray> label_shards = SplitBatch(labels, devices);
  std::vector<NDArray> losses;
  {
    const autograd::RecordScope record;
    for (size_t d = 0; d < devices.size(); ++d) {
      losses.push_back(ops::SoftmaxCrossEntropy(Lenet(image_shards[d], device_params[d]), label_shards[d]));
    }
  }
  autograd::Backward(losses);
  for (size_t i = 0; i < kParamShapes.size(); ++i) {
    std::vector<NDArray> gradients;
    for (const Params& params : device_params) gradients.push_back(autograd::Grad(params[i]));
    AllReduce(gradients);
  }
  for (Params& params : device_params) Sgd(params, FLAGS_lr, images.shape()[0]);
  return losses;
}

NDArray Images(const Batch& batch) {
  return NDArray::From(batch.samples, batch.shape);
}

NDArray Labels(const Batch& batch) {
  const std::vector<float> classes(batch.labels.begin(), batch.labels.end());
  return NDArray::From(classes, {batch.size()});
}

double TestAccuracy(const std::shared_ptr<const Dataset>& test, const Params& params) {
  metric::Accuracy accuracy;
  DataLoader loader(test, {.batch_size = kTestBatch, .shuffle = false, .num_epochs = 1});
  while (const auto batch = loader.Next()) {
    accuracy.Update(Labels(*batch), Lenet(Images(*batch).AsInContext(params[0].context()), params));
  }
  return accuracy.value();
}

void Train(const std::shared_ptr<const Dataset>& train, const std::shared_ptr<const Dataset>& test,
           const std::vector<Context>& devices) {
  std::vector<Params> device_params;
  for (const Context& device : devices) device_params.push_back(GetParams(device));
  DataLoader loader(train, {.batch_size = FLAGS_batch_size, .seed = static_cast<uint64_t>(FLAGS_seed)});
  for (int64_t epoch = 1; epoch <= FLAGS_num_epochs; ++epoch) {
    metric::Loss loss;
    const auto started = std::chrono::steady_clock::now();
    for (int64_t step = 0; step < loader.steps_per_epoch(); ++step) {
      const Batch batch = *loader.Next();
      // The last batch of an epoch may have fewer samples than there are devices.
      if (batch.size() < static_cast<int64_t>(devices.size())) continue;
      const auto losses = TrainBatch(Images(batch), Labels(batch), device_params, devices);
      loss.Update({}, losses);
    }
    WaitAll();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
    std::cout << "devices " << devices.size() << " epoch " << epoch << std::fixed << std::setprecision(6)
              << " loss " << loss.value() << std::setprecision(4) << " test accuracy "
              << TestAccuracy(test, device_params[0]) << std::setprecision(2) << " seconds "
              << seconds.count() << std::endl;
  }
}

[[noreturn]] void ThrowInvalid(const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, StrCat("flag --", why));
}

std::vector<int> DeviceCounts() {
  std::vector<int> counts;
  for (const std::string& part : StrSplit(FLAGS_num_devices, ',')) {
    const auto count = ParseInt(StrTrim(part));
    if (!count || *count < 1 || *count > kMaxDevices) {
      ThrowInvalid(StrCat("num-devices is '", FLAGS_num_devices, "'; it takes numbers from 1 to ",
                          kMaxDevices, " with commas between, for example 1,2"));
    }
    counts.push_back(static_cast<int>(*count));
  }
  return counts;
}

std::shared_ptr<const Dataset> TrainingImages() {
  if (FLAGS_data_dir.empty()) return SyntheticDigits(Subset::kTrain, 0, FLAGS_num_examples);
  const auto all = LoadMnist(FLAGS_data_dir, Subset::kTrain);
  if (FLAGS_num_examples > all->size())
    ThrowInvalid(StrCat("num-examples is ", FLAGS_num_examples, "; there are ", all->size()));
  return FLAGS_num_examples < 0 ? all : Take(all, FLAGS_num_examples);
}

void Run() {
  const std::vector<int> counts = DeviceCounts();
  const int most = *std::max_element(counts.begin(), counts.end());
  if (FLAGS_num_epochs < 1)
    ThrowInvalid(StrCat("num-epochs is ", FLAGS_num_epochs, "; it must be at least 1"));
  if (FLAGS_batch_size < most) {
    ThrowInvalid(StrCat("batch-size is ", FLAGS_batch_size, "; it must be at least the ", most, " devices"));
  }
  if (FLAGS_lr <= 0) ThrowInvalid(StrCat("lr is ", FLAGS_lr, "; it must be above 0"));
  // Each device gets the same number of threads in every run, so that the printed seconds show what
  // additional devices gain.
  SetThreadsPerCpuContext(std::max(1, Job().cpu_threads / most));

  const auto train = TrainingImages();
  const auto test =
      FLAGS_data_dir.empty() ? SyntheticDigits(Subset::kTest) : LoadMnist(FLAGS_data_dir, Subset::kTest);
  for (const int count : counts) {
    std::vector<Context> devices;
    for (int i = 0; i < count; ++i) devices.push_back(cpu(i));
    Train(train, test, devices);
  }
}

}  // namespace

int main(int argc, char** argv) {
  sluice::RestartWithBriefSpins(argc, argv);
  return sluice::RunProgram(argc, argv, [&] {
    ParseFlags(argc, argv, "Data parallelism written with NDArrays only.");
    Run();
  });
}
