// Null pointers, empty lists and functions, lists of unlike lengths, places outside, numbers that are none
// and paths with NUL bytes, by public header: each is an Error that names the call, and nothing has happened.
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "sluice/checkpoint.h"
#include "sluice/clip.h"
#include "sluice/data.h"
#include "sluice/fit.h"
#include "sluice/image_files.h"
#include "sluice/job.h"
#include "sluice/kvstore.h"
#include "sluice/metric.h"
#include "sluice/models.h"
#include "sluice/nn.h"
#include "sluice/ops.h"
#include "sluice/parameters_file.h"
#include "sluice/runtime.h"
#include "sluice/server.h"
#include "sluice/split.h"
#include "sluice/trainer.h"
#include "unit/public/calls.h"

namespace sluice {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const std::string kNul("a\0b", 3);

std::shared_ptr<const ArrayDataset> Numbers() {
  return std::make_shared<ArrayDataset>(Shape{2}, std::vector<float>{1, 2, 3, 4}, std::vector<int32_t>{0, 1});
}

std::shared_ptr<nn::Sequential> Net() {
  auto net = std::make_shared<nn::Sequential>();
  net->Add(nn::Dense(2, {.in_units = 2}));
  net->CollectParams().Initialize();
  return net;
}

TEST(NullArgumentsTest, Arrays) {
  const NDArray x({2, 3});
  const std::vector<float> values = {1, 2};
  const float* const null_values = nullptr;
  ExpectErrors({
      {"From too few", "From", [=] { NDArray::From(std::span(std::as_const(values)), {3}); }},
      {"From none", "From", [] { NDArray::From(std::span<const float>(), {3}); }},
      {"From null", "null pointer", [=] { NDArray::From(std::span<const float>(null_values, 3), {3}); }},
      {"SetBytes null", "null pointer",
       [=] {
         NDArray({3}).SetBytes({static_cast<const std::byte*>(nullptr), 12});
       }},
      {"no such type", "number 77", [] { NDArray({1}, static_cast<DType>(77)); }},
      {"From negative", "negative", [] { NDArray({-1}); }},
      {"no such device", "cpu", [] { NDArray({1}, cpu(-1)); }},
      {"Reshape", "Reshape", [=] { x.Reshape({7}); }},
      {"SliceRows", "SliceRows", [=] { x.SliceRows(1, 3); }},
      {"SliceRows negative", "SliceRows", [=] { x.SliceRows(-1, 1); }},
      {"SliceRows of a scalar", "SliceRows", [] { NDArray(Shape{}).SliceRows(0, 1); }},
      {"axis", "axis", [=] { x.shape()[Shape::kMaxAxes]; }},
      {"WithExtent", "axis", [=] { x.shape().WithExtent(2, 1); }},
      {"WithAxis", "axis", [=] { x.shape().WithAxis(3, 1); }},
      {"WithoutAxis", "axis", [] { Shape{}.WithoutAxis(0); }},
      {"Slice", "Slice", [=] { ops::Slice(x, 2, 0, 1); }},
      {"Concat", "Concat", [=] { ops::Concat({x}, 2); }},
      {"Concat of none", "Concat", [] { ops::Concat({}, 0); }},
      {"SumOfRows of a scalar", "SumOfRows", [] { ops::SumOfRows(NDArray(Shape{})); }},
      {"MeanOfSteps of a row", "MeanOfSteps", [] { ops::MeanOfSteps(NDArray({3})); }},
      {"LogSoftmax of a scalar", "LogSoftmax", [] { ops::LogSoftmax(NDArray(Shape{})); }},
      {"Dropout", "Dropout", [=] { ops::Dropout(x, kNan, 1); }},
      {"Elu", "elu", [=] { ops::Elu(x, static_cast<float>(kNan)); }},
      {"Backward of one gradient too few", "Backward",
       [=] {
         autograd::Backward({x, x}, {x});
       }},
  });
}

TEST(NullArgumentsTest, Splitting) {
  const NDArray x({4, 3});
  const std::vector<double> loads = {1, 2}, nan = {1, kNan};
  ExpectErrors({
      {"SplitData into none", "split", [=] { SplitData(x, 0); }},
      {"SplitData negative", "split", [=] { SplitData(x, -1); }},
      {"SplitAndLoad nowhere", "split", [=] { SplitAndLoad(x, {}); }},
      {"SplitAndLoad unlike", "work load",
       [=] { SplitAndLoad(x, {cpu(0)}, std::span<const double>(loads)); }},
      {"SplitByWorkLoad of none", "work load", [] { SplitByWorkLoad(4, {}); }},
      {"SplitByWorkLoad NaN", "work load", [=] { SplitByWorkLoad(4, nan); }},
      {"SplitByWorkLoad negative", "slices", [=] { SplitByWorkLoad(-4, loads); }},
      {"ClipGlobalNorm NaN", "ClipGlobalNorm", [=] { ClipGlobalNorm({x}, kNan); }},
      {"ClipGlobalNorm negative", "ClipGlobalNorm", [=] { ClipGlobalNorm({x}, -1); }},
  });
}

TEST(NullArgumentsTest, Parameters) {
  const auto parameter = std::make_shared<nn::Parameter>("w", Shape{2});
  nn::ParameterDict none, one;
  one.Add(parameter);
  ExpectErrors({
      {"Add null", "ParameterDict::Add", [&] { none.Add(nullptr); }},
      {"at", "parameter", [&] { one.at(1); }},
      {"Initialize nowhere", "context", [&] { one.Initialize({}); }},
      {"data before Initialize", "'w'", [&] { parameter->data(cpu(0)); }},
      {"list_data", "'w'", [&] { parameter->list_data(); }},
      {"SetData of none", "'w'", [&] { parameter->SetData(NDArray()); }},
      {"SaveParameters of none", "'w'", [&] { SaveParameters("none.safetensors", one); }},
      {"SaveParameters NUL", "NUL", [&] { SaveParameters(kNul, Net()->CollectParams()); }},
      {"LoadParameters NUL", "NUL", [&] { LoadParameters(kNul, Net()->CollectParams()); }},
      {"ReadFileMetadata NUL", "NUL", [] { ReadFileMetadata(kNul); }},
  });
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.Find("w"), nullptr);
}

// As PyTorch's: a Sequential without layers, also one that was moved from, returns its input.
TEST(NullArgumentsTest, ASequentialWithoutLayersIsTheIdentity) {
  nn::Sequential net, empty;
  net.Add(nn::Dense(3, {.in_units = 2}));
  const nn::Sequential taken = std::move(net);
  const NDArray x = NDArray::From({1, 2}, {1, 2});
  EXPECT_EQ(empty(x).ToVector(), x.ToVector());
  EXPECT_EQ(net(x).ToVector(), x.ToVector());
  EXPECT_TRUE(net.CollectParams().empty());
}

TEST(NullArgumentsTest, Layers) {
  nn::Sequential net, taken;
  net.Add(nn::Dense(3, {.in_units = 2}));
  nn::Lambda lambda([](const NDArray& x) { return x; });
  const auto kept = std::make_shared<nn::Lambda>(std::move(lambda));
  nn::Dense dense(3, {.in_units = 2});
  const auto moved = std::make_shared<nn::Dense>(std::move(dense));
  nn::Residual residual{nn::Dense(2, {.in_units = 2})};
  const auto residual_kept = std::make_shared<nn::Residual>(std::move(residual));
  nn::Children children;
  const NDArray x({1, 2});
  ExpectErrors({
      {"Lambda of none", "Lambda", [] { nn::Lambda(nullptr); }},
      {"Lambda moved from", "Lambda", [&] { lambda(x); }},
      {"Dense moved from", "Dense", [&] { dense(x); }},
      {"weight moved from", "Dense", [&] { dense.weight(); }},
      {"Residual moved from", "Residual", [&] { residual(x); }},
      {"child", "layer", [&] { net[1]; }},
      {"child of none", "layer", [&] { taken[0]; }},
      {"Children::Add null", "layer", [&] { children.Add(net, "a", nullptr); }},
      {"no name", "name", [&] { net.Add("", nn::Dense(1)); }},
      {"ShareParameter null", "share", [&] { moved->ShareParameter("weight", nullptr); }},
      {"Concurrent of none", "Concurrent", [&] { nn::Concurrent()(x); }},
      {"Dense of 0", "Dense", [] { nn::Dense(0); }},
      {"Conv2D of -1", "Conv2D", [] { nn::Conv2D(-1, 3); }},
      {"Dropout NaN", "Dropout", [] { nn::Dropout{kNan}; }},
      {"BatchNorm NaN", "BatchNorm", [] { nn::BatchNorm({.momentum = kNan}); }},
      {"Embedding of -1", "Embedding", [] { nn::Embedding(-1, 2); }},
      {"Lstm NaN", "Lstm", [] { nn::Lstm(2, {.dropout = kNan}); }},
      {"HuberLoss NaN", "Huber", [] { nn::HuberLoss(static_cast<float>(kNan)); }},
      {"Uniform NaN", "Uniform", [] { nn::Uniform{kNan}; }},
      {"Normal -1", "Normal", [] { nn::Normal{-1}; }},
      {"Xavier NaN", "Xavier", [] { nn::Xavier(nn::RandomType::kUniform, nn::FactorType::kAvg, kNan); }},
      {"Composite", "Composite", [] { metric::Composite().Add(nullptr); }},
      {"TopKAccuracy", "top-k", [] { metric::TopKAccuracy(0); }},
      {"unlike lists", "accuracy",
       [&] {
         metric::Accuracy().Update({x}, {x, x});
       }},
  });
  EXPECT_EQ(taken(x).shape(), x.shape());  // a network of no layers changes nothing
}

class BrokenFunction final : public Callback {};

TEST(NullArgumentsTest, Datasets) {
  const auto data = Numbers();
  std::vector<float> room(2), small(1);
  const auto images = std::make_shared<ImageDataset>(Shape{1, 1, 2}, std::vector<uint8_t>{1, 2, 3, 4},
                                                     std::vector<uint8_t>{0, 1});
  const auto taken = Take(data, 1), chosen = Select(data, {1}), both = Concat({data, data});
  const auto scaled = Transformed(data, transforms::Scale(2));
  const auto at = [&](const Dataset& set, int64_t index) {
    return [&set, index, room]() mutable { set.Get(index, room); };
  };
  ExpectErrors({
      {"ArrayDataset beyond", "ArrayDataset", at(*data, 2)},
      {"ArrayDataset negative", "ArrayDataset", at(*data, -1)},
      {"ArrayDataset no room", "ArrayDataset", [&] { data->Get(0, small); }},
      {"ArrayDataset label", "ArrayDataset", [&] { data->Label(2); }},
      {"ArrayDataset sample", "ArrayDataset", [&] { data->sample(2); }},
      {"ArrayDataset label array", "ArrayDataset", [&] { data->label(0); }},
      {"ArrayDataset GetLabel", "label", [&] { data->GetLabel(0, room); }},
      {"ImageDataset beyond", "ImageDataset", at(*images, 2)},
      {"ImageDataset no room", "ImageDataset", [&] { images->Get(0, small); }},
      {"ImageDataset pixels", "ImageDataset", [&] { images->pixels(-1); }},
      {"Take beyond", "Take", at(*taken, 1)},
      {"Select beyond", "Select", at(*chosen, 1)},
      {"Select negative", "Select", at(*chosen, -1)},
      {"Concat beyond", "Concat", at(*both, 4)},
      {"Concat negative", "Concat", at(*both, -1)},
      {"Transformed no room", "Transformed", [&] { scaled->Get(0, small); }},
      {"Select null", "Select", [] { Select(nullptr, {}); }},
      {"Take null", "Take", [] { Take(nullptr, 1); }},
      {"Concat null", "Concat",
       [&] {
         Concat({data, nullptr});
       }},
      {"Concat of none", "Concat", [] { Concat(std::vector<std::shared_ptr<const Dataset>>()); }},
      {"Transformed null", "Transformed", [] { Transformed(nullptr, transforms::Scale(2)); }},
      {"Transformed null function", "Transformed", [&] { Transformed(data, nullptr); }},
      {"Compose null", "Compose", [] { transforms::Compose({nullptr}); }},
      {"Scale NaN", "Scale", [] { transforms::Scale(static_cast<float>(kNan)); }},
      {"Normalize of none", "Normalize", [] { transforms::Normalize({}, {}); }},
      {"RandomHorizontalFlip NaN", "Flip", [] { transforms::RandomHorizontalFlip(kNan); }},
  });
}

TEST(NullArgumentsTest, DataLoaders) {
  const auto data = Numbers();
  ExpectErrors({
      {"DataLoader null", "DataLoader", [] { DataLoader(nullptr, {}); }},
      {"DataLoader batch", "batch_size", [&] { DataLoader(data, {.batch_size = -1}); }},
      {"DataLoader threads", "num_threads", [&] { DataLoader(data, {.num_threads = 0}); }},
      {"DataLoader weights", "class_weights",
       [&] {
         DataLoader(data, {.class_weights = {kNan, 1}});
       }},
      {"DataLoader share", "rank", [&] { DataLoader(data, {.share = {.rank = -1, .num_workers = 0}}); }},
      {"DataLoader Seek", "epoch",
       [&] {
         DataLoader(data, {}).Seek({-1, 0});
       }},
      {"StepsPerEpoch of none", "samples", [] { StepsPerEpoch({}, 1); }},
      {"StepsPerEpoch for none", "num_workers",
       [] { StepsPerEpoch({.num_samples = 1, .batch_size = 1}, 0); }},
      {"EpochOrder of none", "samples", [] { EpochOrder({}, 0); }},
  });
}

TEST(NullArgumentsTest, DataFiles) {
  ExpectErrors({
      {"SyntheticDigits", "count", [] { SyntheticDigits(Subset::kTrain, 0, 0); }},
      {"LoadMnist NUL", "NUL", [] { LoadMnist(kNul, Subset::kTrain); }},
      {"LoadCifar10 NUL", "NUL", [] { LoadCifar10(kNul, Subset::kTrain); }},
      {"LoadCsv NUL", "NUL", [] { LoadCsv(kNul); }},
      {"ImageRecordDataset NUL", "NUL",
       [] {
         ImageRecordDataset(kNul, {.image = {.shape = {3, 4, 4}}});
       }},
      {"ImageFolderDataset NUL", "NUL",
       [] {
         ImageFolderDataset(kNul, {.shape = {3, 4, 4}});
       }},
  });
}

TEST(NullArgumentsTest, Training) {
  const auto net = Net();
  const auto data = Numbers();
  const auto fit = [&](FitOptions options) {
    return [&, options] { Fit(*net, data, nullptr, {}, KVStore::Create("local"), options); };
  };
  ExpectErrors({
      {"AfterStep", "AfterStep", [] { AfterStep(nullptr); }},
      {"AfterEpoch", "AfterEpoch", [] { AfterEpoch(nullptr); }},
      {"StopEarly NaN", "StopEarly", [] { StopEarly({.min_delta = kNan}); }},
      {"SaveEvery", "SaveEvery", [] { SaveEvery("p", {.keep = -1}); }},
      {"SaveEvery nowhere", "SaveEvery: the path is empty", [] { SaveEvery("", {}); }},
      {"SaveEvery of a NUL", "SaveEvery: the path", [] { SaveEvery(kNul, {}); }},
      {"KeepBest nowhere", "KeepBest: the path is empty", [] { KeepBest(""); }},
      {"KeepBest of a NUL", "KeepBest: the path", [] { KeepBest(kNul); }},
      {"WriteReport nowhere", "WriteReport: the path is empty", [] { WriteReport("", "t"); }},
      {"WriteReport of a NUL", "WriteReport: the path", [] { WriteReport(kNul, "t"); }},
      {"Fit no data", "dataset", [&] { Fit(*net, nullptr, nullptr, {}, nullptr, {}); }},
      {"Fit null callback", "callback 1", fit({.callbacks = {std::make_shared<BrokenFunction>(), nullptr}})},
      {"Fit nowhere", "contexts", fit({.contexts = {}})},
      {"Fit loads", "work_load", fit({.work_load = {1, 2}})},
      {"Fit batch", "batch_size", fit({.batch_size = 0})},
      {"Fit NaN", "clip_global_norm", fit({.clip_global_norm = kNan})},
      {"Fit rate", "learning_rate", [&] { Fit(*net, data, nullptr, {.learning_rate = kNan}, nullptr, {}); }},
      {"Evaluate nowhere", "Evaluate", [&] { Evaluate(*net, *data, {}); }},
      {"Trainer rate", "learning_rate",
       [&] { Trainer(net->CollectParams(), {.learning_rate = kNan}, nullptr); }},
      {"Trainer clip", "clip_global_norm",
       [&] {
         Trainer(net->CollectParams(), {}, nullptr, {.update_on_kvstore = false, .clip_global_norm = kNan});
       }},
      {"Step of 0", "batch", [&] { Trainer(net->CollectParams(), {}, nullptr).Step(0); }},
      {"Step of -1", "batch", [&] { Trainer(net->CollectParams(), {}, nullptr).Step(-1); }},
      {"SetLearningRate", "learning_rate",
       [&] { Trainer(net->CollectParams(), {}, nullptr).SetLearningRate(kNan); }},
      {"Optimizer::Create", "rate", [] { Optimizer::Create({.learning_rate = kNan}); }},
  });
  EXPECT_EQ(RunProgram(0, nullptr, nullptr), 2);
}

TEST(NullArgumentsTest, StatesAndCheckpoints) {
  const auto net = Net();
  const nn::ParameterDict parameters = net->CollectParams();
  const std::string empty = "the path of the file is empty";
  const Position at{1, 0};
  for (const bool update_on_kvstore : {true, false}) {
    Trainer trainer(parameters, {}, nullptr, {.update_on_kvstore = update_on_kvstore});
    ExpectErrors({
        {"SaveStates nowhere", empty, [&] { trainer.SaveStates(""); }},
        {"SaveStates NUL", "NUL", [&] { trainer.SaveStates(kNul); }},
        {"LoadStates nowhere", empty, [&] { trainer.LoadStates(""); }},
        {"LoadStates NUL", "NUL", [&] { trainer.LoadStates(kNul); }},
        {"SaveCheckpoint nowhere", empty, [&] { SaveCheckpoint("", {}, parameters, trainer); }},
        {"SaveCheckpoint NUL", "NUL", [&] { SaveCheckpoint(kNul, {}, parameters, trainer); }},
    });
  }
  ExpectErrors({
      {"LoadCheckpoint nowhere", empty, [&] { LoadCheckpoint("", at, parameters); }},
      {"LoadCheckpoint NUL", "NUL", [&] { LoadCheckpoint(kNul, at, parameters); }},
      {"ReadCheckpoint nowhere", empty, [&] { ReadCheckpoint("", at); }},
      {"ReadCheckpoint NUL", "NUL", [&] { ReadCheckpoint(kNul, at); }},
      {"RemoveCheckpoint nowhere", empty, [&] { RemoveCheckpoint("", at); }},
      {"RemoveCheckpoint NUL", "NUL", [&] { RemoveCheckpoint(kNul, at); }},
      {"ListCheckpoints nowhere", empty, [] { ListCheckpoints(""); }},
      {"ListCheckpoints NUL", "NUL", [] { ListCheckpoints(kNul); }},
  });
}

TEST(NullArgumentsTest, NamesOfNetworks) {
  ExpectErrors({{"CreateModel of no name", "no network is called ''; there are mlp, lenet",
                 [] { nn::CreateModel(""); }},
                {"CreateModel of a NUL", "no network is called", [] { nn::CreateModel(kNul); }}},
               ErrorCode::kNotFound);
}

TEST(NullArgumentsTest, Processes) {
  EXPECT_EQ(RunServer(0, nullptr, nullptr), 2);
  ExpectErrors({{"JobCounters", "job", [] { JobCounters(); }}}, ErrorCode::kFailedPrecondition);
}

using Lists = std::vector<KVStore::Values>;

void ExpectErrorsOfDenseCalls(const std::shared_ptr<KVStore>& kv) {
  const NDArray x = NDArray::From({1, 2}, {2}), wrong({3});
  const std::vector<Key> w = {"w"}, two = {"w", "v"};
  ExpectErrors({
      {"Init of none", "key v", [&] { kv->Init("v", NDArray()); }},
      {"Init unlike", "Init", [&] { kv->Init(two, std::vector{x}); }},
      {"Push of none", "key w", [&] { kv->Push("w", NDArray()); }},
      {"Push of no device", "key w", [&] { kv->Push(w, Lists{{}}); }},
      {"Push unlike", "Push", [&] { kv->Push(two, Lists{{x}}); }},
      {"Push NaN", "divisor", [&] { kv->Push("w", x, {.divisor = kNan}); }},
      {"Push of a key that is not there", "key v", [&] { kv->Push("v", x); }},
      {"Pull null", "key w", [&] { kv->Pull("w", nullptr); }},
      {"Pull into none", "key w", [&] { kv->Pull(w, Lists{{NDArray()}}); }},
      {"Pull unlike", "Pull", [&] { kv->Pull(two, Lists{{x}}); }},
      {"PullLatest nowhere", "key w", [&] { kv->PullLatest(w, Lists{{}}); }},
      {"PushPull of none", "key w", [&] { kv->PushPull("w", NDArray()); }},
      {"PushPull into another shape", "key w", [&] { kv->PushPull(w, Lists{{x * 9}}, Lists{{wrong}}); }},
      {"PushPull unlike", "PushPull",
       [&] {
         kv->PushPull(w, Lists{{x * 9}}, Lists{{x}, {x}});
       }},
      {"Broadcast unlike", "Broadcast", [&] { kv->Broadcast({"n"}, {x}, Lists{}); }},
      {"Broadcast into none", "key n", [&] { kv->Broadcast({"n"}, {x}, Lists{{NDArray()}}); }},
      {"Broadcast of none", "key n", [&] { kv->Broadcast({"n"}, {NDArray()}, Lists{{x}}); }},
  });
}

void ExpectErrorsOfRowSparseCalls(const std::shared_ptr<KVStore>& kv) {
  const NDArray x = NDArray::From({1, 2}, {2});
  const auto out = std::make_shared<NDArray>(Shape{2});
  ExpectErrors({
      {"InitRowSparse", "key u",
       [&] {
         kv->InitRowSparse("u", {0, 2});
       }},
      {"InitRowSparse NaN", "key u",
       [&] {
         kv->InitRowSparse("u", {2, 2}, DType::kFloat32, RowInit::Constant(kNan));
       }},
      {"PushRowSparse of none", "key t", [&] { kv->PushRowSparse("t", RowSparse()); }},
      {"PushRowSparse of no device", "key t", [&] { kv->PushRowSparse("t", std::vector<RowSparse>()); }},
      {"RowSparsePull null", "key t", [&] { kv->RowSparsePull("t", x, nullptr); }},
      {"RowSparsePull of none", "key t", [&] { kv->RowSparsePull("t", NDArray(), out.get()); }},
      {"SetRowSparse of none", "key t", [&] { kv->SetRowSparse("t", {}); }},
      {"RowSparseIds", "key w", [&] { kv->RowSparseIds("w"); }},
  });
}

void ExpectErrorsOfSettingsAndBarriers(const std::shared_ptr<KVStore>& kv) {
  ExpectErrors({
      {"SetOptimizer NaN", "momentum", [&] { kv->SetOptimizer({.momentum = kNan}); }},
      {"SaveOptimizerStates", "optimiser", [&] { kv->SaveOptimizerStates("states"); }},
      {"Barrier of none", "Barrier", [&] { kv->Barrier(std::vector<int>()); }},
      {"Barrier of -1", "Barrier", [&] { kv->Barrier(std::vector{-1}); }},
      {"Create", "type", [] { KVStore::Create(""); }},
      {"Create NUL", "type", [] { KVStore::Create(kNul); }},
  });
}

TEST(NullArgumentsTest, Stores) {
  for (const char* type : {"local", "device"}) {
    SCOPED_TRACE(type);
    const auto kv = KVStore::Create(type);
    const NDArray x = NDArray::From({1, 2}, {2});
    NDArray out({2});
    kv->Init("w", x);
    kv->InitRowSparse("t", {4, 2});
    ExpectErrorsOfDenseCalls(kv);
    ExpectErrorsOfRowSparseCalls(kv);
    ExpectErrorsOfSettingsAndBarriers(kv);
    // Nothing has happened.
    kv->Pull("w", &out);
    EXPECT_THAT(out.ToVector(), ::testing::ElementsAre(1, 2));
    kv->Init("n", x);
    kv->Init("v", x);
    kv->Push({}, Lists{});  // no keys are nothing to do
    kv->SetUpdater(nullptr);
    kv->Push("w", x * 2);
    kv->Pull("w", &out);
    EXPECT_THAT(out.ToVector(), ::testing::ElementsAre(2, 4));
  }
}

}  // namespace
}  // namespace sluice
