// Writes a safetensors file with everything that an external reference needs to repeat a computation:
//
//   reference_probe digits COUNT FILE           images and labels of the first synthetic training digits
//   reference_probe steps NETWORK STEPS FILE    steps of SGD with momentum 0.9, learning rate 0.05 and weight
//                                               decay 0.01 on one random batch
//
// The second file holds input, labels, start.NAME of each parameter, loss.K of each step K, gradient.NAME of
// the first step, and the parameters after the first step (first.NAME) and at the end (end.NAME).
#include <charconv>
#include <cstring>
#include <iostream>

#include "base/rng.h"
#include "base/strings.h"
#include "data/safetensors/safetensors.h"
#include "sluice/autograd.h"
#include "sluice/error.h"
#include "sluice/loss.h"
#include "sluice/models.h"
#include "sluice/runtime.h"
#include "sluice/synthetic.h"
#include "sluice/trainer.h"

namespace {

using namespace sluice;

constexpr int64_t kBatch = 8, kWords = 50, kTextLength = 12, kTextClasses = 4;

// The arrays of a file. Add copies their current contents.
class Arrays {
 public:
  void Add(std::string name, const NDArray& array) {
    const std::vector<float> values = array.ToVector();
    Add(std::move(name), DType::kFloat32, array.shape(), std::as_bytes(std::span(values)));
  }
  void Add(std::string name, DType dtype, const Shape& shape, std::span<const std::byte> bytes) {
    bytes_.emplace_back(bytes.begin(), bytes.end());
    views_.push_back({std::move(name), dtype, shape, bytes_.back()});
  }
  void AddAll(const std::string& prefix, const nn::ParameterDict& parameters) {
    for (const auto& parameter : parameters) Add(prefix + parameter->name(), parameter->data(cpu(0)));
  }
  void Write(const std::string& path) const { WriteSafetensors(path, views_).OrThrow(); }

 private:
  std::vector<std::vector<std::byte>> bytes_;  // growing moves the inner vectors, but not their contents
  std::vector<TensorView> views_;
};

void WriteDigits(int64_t count, const std::string& path) {
  const auto digits = SyntheticDigits(Subset::kTrain, 0, count);
  std::vector<uint8_t> pixels;
  for (int64_t i = 0; i < count; ++i) {
    const auto image = digits->pixels(i);
    pixels.insert(pixels.end(), image.begin(), image.end());
  }
  Arrays arrays;
  arrays.Add("images", DType::kUInt8, {count, 1, 28, 28}, std::as_bytes(std::span(pixels)));
  arrays.Add("labels", DType::kUInt8, {count}, std::as_bytes(std::span(digits->labels())));
  arrays.Write(path);
}

struct Task {
  nn::Sequential net;
  NDArray input;
  int64_t classes;
};

NDArray RandomImages(const Shape& shape, Rng* rng) {
  std::vector<float> values(static_cast<size_t>(shape.size()));
  for (float& value : values) value = static_cast<float>(rng->Uniform());
  return NDArray::From(std::span<const float>(values), shape);
}

// Returns texts of word ids from 1 on, followed by padding; every third text fills the whole length.
NDArray RandomTexts(Rng* rng) {
  std::vector<float> ids;
  for (int64_t text = 0; text < kBatch; ++text) {
    const int64_t words = text % 3 == 0 ? kTextLength : 1 + static_cast<int64_t>(rng->Below(kTextLength));
    for (int64_t i = 0; i < kTextLength; ++i)
      ids.push_back(i < words ? static_cast<float>(1 + rng->Below(kWords - 1)) : 0);
  }
  return NDArray::From(std::span<const float>(ids), {kBatch, kTextLength});
}

Task MakeTask(const std::string& network, Rng* rng) {
  if (network == "text_mean") return {nn::TextMean(kWords, kTextClasses, 8), RandomTexts(rng), kTextClasses};
  if (network == "text_cnn") return {nn::TextCnn(kWords, kTextClasses, 8, 6), RandomTexts(rng), kTextClasses};
  if (network == "text_lstm")
    return {nn::TextLstm(kWords, kTextClasses, 8, 6), RandomTexts(rng), kTextClasses};
  if (network == "text_gru") return {nn::TextGru(kWords, kTextClasses, 8, 6), RandomTexts(rng), kTextClasses};
  const Shape shape = network == "resnet20" ? Shape{kBatch, 3, 16, 16} : Shape{kBatch, 1, 28, 28};
  return {nn::CreateModel(network), RandomImages(shape, rng), 10};
}

void WriteSteps(const std::string& network, int64_t steps, const std::string& path) {
  // Seed 25 of the 60 that were tried keeps all inputs of relus in resnet20's first step farthest from 0:
  // 2.6e-5.
  Rng rng(25);
  auto [net, input, classes] = MakeTask(network, &rng);
  std::vector<int32_t> labels(kBatch);
  for (int32_t& label : labels) label = static_cast<int32_t>(rng.Below(static_cast<uint64_t>(classes)));
  const NDArray label = NDArray::From(std::span<const int32_t>(labels), {kBatch});
  const nn::ParameterDict parameters = net.CollectParams();
  parameters.Initialize({cpu(0)}, nullptr, 1);
  net(input);  // determines deferred shapes and draws the initial values

  Arrays arrays;
  arrays.Add("input", input);
  arrays.Add("labels", DType::kInt32, {kBatch}, std::as_bytes(std::span(labels)));
  arrays.AddAll("start.", parameters);
  Trainer trainer(parameters, {.learning_rate = 0.05, .momentum = 0.9, .wd = 0.01}, KVStore::Create("local"));
  // text_cnn has dropout, whose mask a reference could not repeat: it runs without training mode.
  const bool drops = network == "text_cnn";
  for (int64_t step = 0; step < steps; ++step) {
    NDArray loss;
    {
      const autograd::RecordScope record(/*training=*/!drops);
      loss = nn::SoftmaxCrossEntropyLoss()(net(input), label);
    }
    autograd::Backward(loss);
    arrays.Add(StrCat("loss.", step), loss);
    for (const auto& parameter : parameters) {
      if (step == 0 && parameter->differentiable())
        arrays.Add("gradient." + parameter->name(), parameter->grad(cpu(0)));
    }
    trainer.Step(kBatch);
    if (step == 0) arrays.AddAll("first.", parameters);
  }
  arrays.AddAll("end.", parameters);
  arrays.Write(path);
}

int64_t Count(std::string_view text) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 1)
    throw Error(ErrorCode::kInvalidArgument, StrCat("'", text, "' is no count from 1"));
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  return RunProgram(argc, argv, [&] {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (arguments.size() == 3 && arguments[0] == "digits")
      return WriteDigits(Count(arguments[1]), arguments[2]);
    if (arguments.size() == 4 && arguments[0] == "steps")
      return WriteSteps(arguments[1], Count(arguments[2]), arguments[3]);
    throw Error(ErrorCode::kInvalidArgument,
                "reference_probe takes 'digits COUNT FILE' or 'steps NETWORK STEPS FILE'");
  });
}
