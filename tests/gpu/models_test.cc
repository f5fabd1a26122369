// Every stock model trains on the cards of a test machine as on a CPU: the same weights after a few steps.
// Under ASan a host that touches memory of a card dies.
#include "sluice/models.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "contract/job.h"
#include "gpu/devices_of_machine.h"
#include "gpu/runtime/nccl.h"
#include "sluice/autograd.h"
#include "sluice/fit.h"
#include "sluice/loss.h"
#include "sluice/split.h"
#include "sluice/synthetic.h"
#include "sluice/trainer.h"
#include "unit/train/toy.h"

namespace sluice::testing {
namespace {

constexpr int64_t kBatch = 4;

// Rows of ids, of which those behind a length are padding, or images of random pixels.
NDArray InputsOf(std::string_view model, Rng& rng) {
  const bool text = model.starts_with("text");
  const Shape shape = text                  ? Shape{kBatch, 8}
                      : model == "resnet20" ? Shape{kBatch, 3, 32, 32}
                                            : Shape{kBatch, 1, 28, 28};
  std::vector<float> values;
  for (int64_t i = 0; i < shape.size(); ++i) {
    const bool padding = text && i % 8 > 3 + i / 8;
    values.push_back(text ? (padding ? 0.0f : static_cast<float>(1 + rng.Below(99)))
                          : static_cast<float>(rng.Uniform(-1, 1)));
  }
  return NDArray::From(values, shape);
}

// Trains for some steps and returns the weights by their names. Each context has a part of the batch.
std::map<std::string, std::vector<float>> Train(std::string_view model, const std::vector<Context>& contexts,
                                                std::shared_ptr<KVStore> store, int steps) {
  nn::Sequential net = nn::CreateModel(model);
  const nn::ParameterDict parameters = net.CollectParams();
  parameters.Initialize(contexts, nullptr, /*seed=*/7);
  Trainer trainer(parameters, {.learning_rate = 0.05, .momentum = 0.9}, std::move(store));
  const nn::SoftmaxCrossEntropyLoss loss_of;
  Rng rng(11);
  for (int step = 0; step < steps; ++step) {
    const std::vector<NDArray> xs = SplitAndLoad(InputsOf(model, rng), contexts);
    const std::vector<NDArray> labels =
        SplitAndLoad(NDArray::From(std::vector<float>{1, 0, 3, 9}, {kBatch}), contexts);
    std::vector<NDArray> losses;
    {
      const autograd::RecordScope record({.seed = 3, .step = static_cast<uint64_t>(step)});
      for (size_t i = 0; i < contexts.size(); ++i) losses.push_back(loss_of(net(xs[i]), labels[i]));
    }
    autograd::Backward(losses);
    trainer.Step(kBatch);
  }
  std::map<std::string, std::vector<float>> weights;
  for (const auto& parameter : parameters)
    weights[parameter->name()] = parameter->data(contexts.front()).ToVector<float>();
  return weights;
}

void ExpectAlike(const std::map<std::string, std::vector<float>>& actual,
                 const std::map<std::string, std::vector<float>>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, values] : expected) {
    const std::vector<float>& others = actual.at(name);
    ASSERT_EQ(others.size(), values.size()) << name;
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(others[i], values[i], 1e-4) << name << ", element " << i;
  }
}

// Under TSan, where a kernel takes thirty times as long, three have every kind of order between streams.
std::vector<std::string_view> ModelsToTry() {
#ifdef __SANITIZE_THREAD__
  return {"mlp", "lenet_avg", "text_lstm"};
#else
  return nn::ModelNames();
#endif
}

class ModelOnCards : public ::testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(Models, ModelOnCards, ::testing::ValuesIn(ModelsToTry()),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ModelOnCards, TrainsAsOnACpu) {
  const auto expected = Train(GetParam(), {cpu(0)}, StoreOf("local"), 2);
  cuda::DevicesOfMachine machine({.cards = 2, .seed = 1});
  ExpectAlike(Train(GetParam(), {gpu(0)}, StoreOf("local"), 2), expected);
}

// Dropout draws other masks on several contexts, and statistics of a batch are those of its part.
TEST(ModelsOnCards, TrainTogetherAsOnACpu) {
  for (const char* const model : {"mlp", "lenet_avg"}) {
    SCOPED_TRACE(model);
    const auto expected = Train(model, {cpu(0)}, StoreOf("local"), 3);
    cuda::DevicesOfMachine machine({.cards = 2, .seed = 5});
    const emulation::Nccl nccl;
    for (const char* const store : {"local", "device", "nccl"}) {
      SCOPED_TRACE(store);
      ExpectAlike(Train(model, {gpu(0), gpu(1)}, StoreOf(store), 3), expected);
      ExpectAlike(Train(model, {gpu(1), gpu(1)}, StoreOf(store), 3), expected);
      ExpectAlike(Train(model, {gpu(0)}, StoreOf(store), 3), expected);
    }
  }
}

TEST(ModelsOnCards, TrainInAJobAsOnACpu) {
  const auto expected = Train("lenet_avg", {cpu(0)}, StoreOf("local"), 3);
  for (const char* const type : {"dist_sync", "dist_device_sync", "dist_async"}) {
    SCOPED_TRACE(type);
    cuda::DevicesOfMachine machine({.cards = 2, .seed = 6});
    for (const auto& contexts : {std::vector{gpu(0)}, std::vector{gpu(0), gpu(1)}}) {
      Job job({.type = type});
      job.RunShared([&](const std::shared_ptr<KVStore>& store) {
        ExpectAlike(Train("lenet_avg", contexts, store, 3), expected);
      });
    }
  }
}

// Fit with all that it does beside the steps: batches ahead, metrics, clipping, evaluation, a checkpoint.
TEST(ModelsOnCards, FitAsOnACpu) {
  const auto fit = [](const std::vector<Context>& contexts, double clip_global_norm) {
    nn::Sequential net = nn::Mlp();
    net.CollectParams().Initialize(contexts, nullptr, /*seed=*/7);
    FitOptions options;
    options.contexts = contexts;
    options.batch_size = 16;
    options.num_epochs = 2;
    options.top_k = 3;
    options.clip_global_norm = clip_global_norm;
    options.quiet = true;
    return Fit(net, SyntheticDigits(Subset::kTrain, 0, 50), SyntheticDigits(Subset::kTest, 0, 40),
               {.learning_rate = 0.05, .momentum = 0.9}, StoreOf("device"), options);
  };
  for (const double clip_global_norm : {0.0, 0.5}) {
    const FitReport expected = fit({cpu(0)}, clip_global_norm);
    cuda::DevicesOfMachine machine({.cards = 2, .seed = 4});
    for (const auto& contexts :
         {std::vector{gpu(0)}, std::vector{gpu(0), gpu(1)}, std::vector{gpu(0), gpu(0)}}) {
      const FitReport actual = fit(contexts, clip_global_norm);
      ASSERT_EQ(actual.train_loss.size(), expected.train_loss.size());
      for (size_t i = 0; i < expected.train_loss.size(); ++i)
        EXPECT_NEAR(actual.train_loss[i], expected.train_loss[i], 1e-4);
      EXPECT_NEAR(actual.test_loss, expected.test_loss, 1e-4);
      EXPECT_EQ(actual.test_score, expected.test_score);
      EXPECT_EQ(actual.test_top_k, expected.test_top_k);
    }
  }
}

}  // namespace
}  // namespace sluice::testing
