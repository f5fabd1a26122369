// Builds a network and its data, and issues training steps on them.
//
// Three ways to update exist: without a store, Sgd enqueues the optimiser on the parameters' own stream; with
// a store and overlap, the Trainer pushes during backward; with a store and without overlap, ExchangeAtOnce
// pushes and pulls all keys after backward. Everything runs on the main thread of train_bench, and at most
// one step is issued ahead of the device.
#include "train_load.h"

#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/strings.h"
#include "cost.h"
#include "sluice/autograd.h"
#include "sluice/error.h"
#include "sluice/optimizer.h"
#include "sluice/synthetic.h"
#include "tensor/access.h"

namespace sluice::bench {
namespace {

const OptimizerConfig kSgd{.learning_rate = 0.05, .momentum = 0.9, .wd = 1e-4};
constexpr int64_t kClasses = 10, kVocabulary = 10'000, kWords = 64;
constexpr int64_t kUnits = 200, kSteps = 35;  // for the networks that are one recurrent layer

NDArray RandomIds(const Shape& shape, uint64_t below, Rng& rng) {
  std::vector<int32_t> ids(static_cast<size_t>(shape.size()));
  for (int32_t& id : ids) id = static_cast<int32_t>(rng.Below(below));
  return NDArray::From(std::span<const int32_t>(ids), shape);
}

bool IsOneLayer(const std::string& network) {
  return network == "lstm_200" || network == "gru_200" || network == "rnn_200";
}

Shape InputShape(const std::string& network, int64_t n) {
  if (IsOneLayer(network)) return {n, kSteps, kUnits};
  return network == "resnet20" ? Shape{n, 3, 32, 32} : Shape{n, 1, 28, 28};
}

NDArray RandomInputs(const std::string& network, int64_t n, Rng& rng) {
  if (network.starts_with("text_")) return RandomIds({n, kWords}, kVocabulary, rng);
  const Shape shape = InputShape(network, n);
  std::vector<float> values(static_cast<size_t>(shape.size()));
  for (float& value : values) value = static_cast<float>(rng.Uniform());
  return NDArray::From(std::span<const float>(values), shape);
}

template <typename Recurrent>
nn::Sequential OneLayer(Recurrent recurrent) {
  nn::Sequential net;
  net.Add("recurrent", std::move(recurrent)).Add("last", nn::SequenceLast()).Add("fc", nn::Dense(kClasses));
  return net;
}

nn::Sequential MakeNetwork(const std::string& name) {
  if (name == "lstm_200") return OneLayer(nn::Lstm(kUnits));
  if (name == "gru_200") return OneLayer(nn::Gru(kUnits));
  if (name == "rnn_200") return OneLayer(nn::Rnn(kUnits, ops::RnnActivation::kTanh));
  return nn::CreateModel(name);
}

// Calls each layer by itself, as a program may do. Sequential would run some neighbouring layers in one pass.
NDArray OneByOne(const nn::Sequential& net, NDArray x) {
  for (const auto& layer : net.children()) {
    const auto* inner = dynamic_cast<const nn::Sequential*>(layer.get());
    x = inner != nullptr ? OneByOne(*inner, x) : (*layer)(x);
  }
  return x;
}

// Adds the cost of v = m v - lr (scale g + wd w); w += v.
void AddSgdCost(int64_t n) {
  AddCost(7.0 * static_cast<double>(n), 5.0 * sizeof(float) * static_cast<double>(n), StrCat(n));
}

}  // namespace

// SGD with momentum, on the parameters' own stream.
class TrainLoad::Sgd {
 public:
  explicit Sgd(const nn::ParameterDict& parameters) : optimizer_(Optimizer::Create(kSgd)) {
    for (const auto& parameter : parameters) {
      if (parameter->grad_req() == autograd::GradReq::kNull) continue;
      parameters_.push_back(parameter);
      momenta_.emplace_back(parameter->shape());
    }
  }

  void Step(double grad_scale) {
    ++num_update_;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      nn::Parameter& parameter = *parameters_[i];
      const Optimizer::Step step{.num_update = num_update_,
                                 .lr_mult = parameter.lr_mult(),
                                 .wd_mult = parameter.wd_mult(),
                                 .grad_scale = grad_scale};
      Update(step, parameter.data(cpu(0)), parameter.grad(cpu(0)), momenta_[i]);
    }
  }

 private:
  void Update(const Optimizer::Step& step, NDArray& weight, const NDArray& gradient, NDArray& momentum) {
    Events after = PendingUses(weight);
    after.push_back(ReadyToRead(weight));
    after.push_back(ReadyToRead(gradient));
    after.push_back(ReadyToRead(momentum));
    // The work holds a reference to the optimiser, since it may run after this object is destroyed.
    const Event done = EnqueueOn(
        weight.context(), "sgd", after, [optimizer = optimizer_, step, weight, gradient, momentum]() mutable {
          auto* w = reinterpret_cast<float*>(MutableHostBytes(weight).data());
          auto* v = reinterpret_cast<float*>(MutableHostBytes(momentum).data());
          const auto* g = reinterpret_cast<const float*>(HostBytes(gradient).data());
          AddSgdCost(weight.size());
          optimizer->PrepareUpdate<float>(step)(w, w, g, &v, static_cast<size_t>(weight.size()));
        });
    AddReader(gradient, done);
    SetWriter(momentum, done);
    SetWriter(weight, done);
  }

  const std::shared_ptr<const Optimizer> optimizer_;
  std::vector<std::shared_ptr<nn::Parameter>> parameters_;
  std::vector<NDArray> momenta_;
  int64_t num_update_ = 0;
};

TrainLoad::TrainLoad(const TrainLoadOptions& options)
    : options_(options), net_(MakeNetwork(options.network)) {
  Rng rng(1);
  inputs_ = RandomInputs(options_.network, options_.batch_size, rng).AsInContext(options_.context);
  labels_ = RandomIds({options_.batch_size}, kClasses, rng).AsInContext(options_.context);
  parameters_ = net_.CollectParams();
  parameters_.Cast(options_.dtype);
  parameters_.Initialize({options_.context});
  net_(inputs_);  // determines deferred shapes
  if (options_.kv_store.empty()) {
    sgd_ = std::make_unique<Sgd>(parameters_);
  } else {
    store_ = KVStore::Create(options_.kv_store);
    if (options_.compression.type != Compression::kNone || options_.compression.weights != Compression::kNone)
      store_->SetGradientCompression(options_.compression);
    OptimizerConfig sgd = kSgd;
    sgd.multi_precision = options_.dtype != DType::kFloat32;
    trainer_ = std::make_unique<Trainer>(parameters_, sgd, store_);
  }
  if (options_.loader) MakeLoader();
}

TrainLoad::~TrainLoad() = default;

int64_t TrainLoad::CountParameters() const {
  int64_t count = 0;
  for (const auto& parameter : parameters_) {
    if (parameter->grad_req() != autograd::GradReq::kNull) count += parameter->shape().size();
  }
  return count;
}

std::vector<std::string> TrainLoad::PushedKeys() const {
  std::vector<std::string> names;
  for (const auto& parameter : parameters_) {
    if (parameter->grad_req() != autograd::GradReq::kNull) names.push_back(parameter->name());
  }
  return names;
}

void TrainLoad::MakeLoader() {
  if (options_.network.starts_with("text_") || IsOneLayer(options_.network)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        StrCat("network ", options_.network, " reads sequences; a loader of images is for the others"));
  }
  const auto images =
      options_.network == "resnet20" ? SyntheticPictures(Subset::kTrain) : SyntheticDigits(Subset::kTrain);
  loader_ =
      std::make_unique<DataLoader>(InMemory(*images), DataLoaderOptions{.batch_size = options_.batch_size,
                                                                        .last_batch = LastBatch::kDiscard,
                                                                        .share = {rank(), num_workers()}});
}

void TrainLoad::TakeBatch() {
  const auto start = std::chrono::steady_clock::now();
  Batch batch = *loader_->Next();
  loader_waits_.push_back(std::chrono::steady_clock::now() - start);
  inputs_ = NDArray::From(std::span<const float>(batch.samples), batch.shape, options_.context);
  labels_ = NDArray::From(std::span<const int32_t>(batch.labels), {batch.size()}, options_.context);
  loader_->Reuse(std::move(batch));
}

void TrainLoad::Step() {
  if (loader_ != nullptr) TakeBatch();
  const NDArray losses_before = losses_;
  {
    const autograd::RecordScope record;
    losses_ = loss_(options_.layer_by_layer ? OneByOne(net_, inputs_) : net_(inputs_), labels_);
  }
  Backward();
  // Waits for the previous step, as a program with a progress bar does: only one step is issued ahead.
  if (losses_before.valid()) losses_before.WaitToRead();
}

void TrainLoad::Backward() {
  if (trainer_ == nullptr) {
    autograd::Backward({losses_});
    sgd_->Step(1.0 / static_cast<double>(options_.batch_size));
  } else if (options_.overlap) {
    trainer_->PushDuringBackward(options_.batch_size);
    autograd::Backward({losses_});
    trainer_->Step(options_.batch_size);
  } else {
    autograd::Backward({losses_});
    ExchangeAtOnce();
  }
}

// Pushes and pulls the keys that the Trainer has initialised, without the Trainer's priorities.
void TrainLoad::ExchangeAtOnce() {
  std::vector<Key> keys;
  std::vector<KVStore::Values> gradients, weights;
  for (const auto& parameter : parameters_) {
    if (parameter->grad_req() == autograd::GradReq::kNull) continue;
    keys.emplace_back(parameter->name());
    gradients.push_back({parameter->grad(options_.context)});
    weights.push_back({parameter->data(options_.context)});
  }
  sluice::WaitAll();
  store_->PushPull(keys, gradients, weights, {.divisor = static_cast<double>(options_.batch_size)});
  store_->WaitAll();
}

void TrainLoad::Drain() {
  losses_ = NDArray();
  if (store_ != nullptr) store_->WaitAll();
  sluice::WaitAll();
  if (store_ != nullptr) store_->Barrier();
}

void TrainLoad::Run(int steps) {
  for (int i = 0; i < steps; ++i) Step();
  Drain();
}

}  // namespace sluice::bench
