// Sums of float16 gradients over devices and workers that are not float16 numbers before they are divided,
// mostly because they overflow. Every type of store must give the exact mean: for assignment, for updates,
// with compression, for row-sparse keys and in a Trainer.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "base/strings.h"
#include "contract/weight_key.h"
#include "sluice/clip.h"
#include "sluice/nn.h"
#include "sluice/store_type.h"
#include "sluice/trainer.h"

namespace sluice::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr float kBig = 32768;  // the sum of two of these overflows float16
const Shape kLong = {300};

class HalfSumsOn : public ::testing::TestWithParam<std::string> {
 protected:
  bool IsDist() const { return StoreType::Parse(GetParam()).distributed; }
  bool IsAsync() const { return StoreType::Parse(GetParam()).async; }
  int Workers() const { return IsDist() ? 2 : 1; }
  Job MakeJob() const { return Job({.type = GetParam(), .workers = Workers(), .bigarray_bound = 100}); }
  // Returns one gradient for each of `devices` devices.
  static KVStore::Values Gradients(const KVStore& kv, int devices, double value) {
    KVStore::Values values;
    for (int i = 0; i < devices; ++i) values.push_back(Filled(kv, kLong, value, i, DType::kFloat16));
    return values;
  }
  // Returns one float16 parameter.
  static nn::ParameterDict ZerosOnFourDevices(const KVStore& kv) {
    std::vector<Context> contexts;
    for (int i = 0; i < 4; ++i) contexts.push_back(DeviceOf(kv, i));
    nn::ParameterDict parameters;
    parameters.Add(
        std::make_shared<nn::Parameter>("w", kLong, nn::ParameterOptions{.dtype = DType::kFloat16}));
    parameters.Initialize(contexts, std::make_shared<nn::Zero>());
    return parameters;
  }
  static std::vector<float> Settled(KVStore& kv) {
    kv.WaitAll();
    kv.Barrier();
    NDArray out = Filled(kv, kLong, 0, 0, DType::kFloat16);
    kv.PullLatest({kKey}, {{out}});
    return out.AsType(DType::kFloat32).ToVector();
  }
};
INSTANTIATE_TEST_SUITE_P(Stores, HalfSumsOn, ::testing::ValuesIn(StoreTypes()),
                         [](const auto& info) { return info.param; });

// Workers may have different numbers of devices.
TEST_P(HalfSumsOn, AMeanThatIsAFloat16NumberIsAssigned) {
  if (IsAsync()) return;  // async stores do not assign
  MakeJob().Run([&](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kLong, 0, 0, DType::kFloat16));
    for (const double value : {30000.0, -30000.0, 0x1p-24}) {
      const KVStore::Values gradients = Gradients(kv, 4, value);
      kv.PushPull({kKey}, {gradients}, {gradients}, {.divisor = 4.0 * Workers()});
      EXPECT_THAT(gradients[3].AsType(DType::kFloat32).ToVector(), Each(static_cast<float>(value)));
    }
    const int devices = kv.rank() == 0 ? 3 : 1;
    kv.Push(kKey, Gradients(kv, devices, 30000), {.divisor = IsDist() ? 4.0 : 3.0});
    EXPECT_THAT(Settled(kv), Each(30000));
    kv.Push(kKey, Gradients(kv, 2, 1.5), {});  // sums that fit
    EXPECT_THAT(Settled(kv), Each(3 * Workers()));
  });
}

TEST_P(HalfSumsOn, AnUpdateSeesTheMean) {
  MakeJob().Run([&](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kLong, 0, 0, DType::kFloat16));
    kv.SetOptimizer({.learning_rate = 1 / kBig});
    kv.Barrier();
    kv.Push(kKey, Gradients(kv, 4, kBig), {.divisor = 4.0 * (IsAsync() ? 1 : Workers())});
    EXPECT_THAT(Settled(kv), Each(IsAsync() ? -Workers() : -1));
  });
}

TEST_P(HalfSumsOn, WhatIsCompressedIsTheWholeSum) {
  if (!IsDist()) return;
  for (const GradientCompression& how :
       {GradientCompression{.type = Compression::kTopK, .ratio = 0.2},
        GradientCompression{.type = Compression::k2Bit, .threshold = 4 * kBig}}) {
    MakeJob().Run([&](KVStore& kv) {
      kv.Init(kKey, Filled(kv, kLong, 0, 0, DType::kFloat16));
      kv.SetOptimizer({.learning_rate = 1 / kBig});
      kv.SetGradientCompression(how);
      kv.Barrier();
      KVStore::Values gradients = Gradients(kv, 4, 0);
      for (NDArray& gradient : gradients) gradient.SliceRows(150, 155).Fill(kBig);
      kv.Push(kKey, gradients, {.divisor = 4.0 * (IsAsync() ? 1 : Workers())});
      std::vector<float> expected(300);
      std::fill(expected.begin() + 150, expected.begin() + 155,
                static_cast<float>(IsAsync() ? -Workers() : -1));
      EXPECT_EQ(Settled(kv), expected);
    });
  }
}

TEST_P(HalfSumsOn, RowsThatAreNamedOftenAddUp) {
  MakeJob().Run([&](KVStore& kv) {
    kv.InitRowSparse(kKey, {50, 1}, DType::kFloat16);
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
    const auto push = [&](const std::vector<int64_t>& ids, double value, double divisor) {
      const auto n = static_cast<int64_t>(ids.size());
      kv.PushRowSparse(kKey,
                       RowSparse{NDArray::From(std::span<const int64_t>(ids), {n}, DeviceOf(kv)),
                                 Filled(kv, {n, 1}, value, 0, DType::kFloat16)},
                       {.divisor = divisor});
    };
    const auto rows = [&](const std::vector<int64_t>& ids) {
      const auto n = static_cast<int64_t>(ids.size());
      kv.WaitAll();
      kv.Barrier();
      NDArray out = Filled(kv, {n, 1}, 0, 0, DType::kFloat16);
      kv.RowSparsePull(kKey, NDArray::From(std::span<const int64_t>(ids), {n}, DeviceOf(kv)), &out);
      return out.AsType(DType::kFloat32).ToVector();
    };
    push({7, 7, 9, 7}, 24000, 3.0 * Workers());  // 72,000 per worker before the division
    EXPECT_THAT(rows({7, 9}), ElementsAre(24000, 8000));
    push({1, 1, 1, 2}, 0x1p-24, 1);  // the smallest positive float16
    const auto n = static_cast<float>(Workers());
    EXPECT_THAT(rows({1, 2}), ElementsAre(3 * n * 0x1p-24f, n * 0x1p-24f));
  });
}

TEST_P(HalfSumsOn, ATrainersStepSeesTheMean) {
  for (const bool update_on_kvstore : {true, false}) {
    if (IsAsync() && !update_on_kvstore) continue;
    for (const bool overlap : {false, true}) {
      MakeJob().RunShared([&](const std::shared_ptr<KVStore>& kv) {
        const nn::ParameterDict parameters = ZerosOnFourDevices(*kv);
        const auto& parameter = parameters.at(0);
        Trainer trainer(parameters, {.learning_rate = 1 / kBig}, kv, {update_on_kvstore});
        const int64_t batch = 4 * (IsAsync() ? 1 : Workers());
        for (int step = 1; step <= 2; ++step) {
          if (overlap) trainer.PushDuringBackward(batch);
          autograd::Backward(parameter->list_data(), Gradients(*kv, 4, kBig));
          trainer.Step(batch);
          kv->WaitAll();
          kv->Barrier();
          if (IsAsync()) kv->PullLatest({Key("w")}, {parameter->list_data()});
          for (const NDArray& weight : parameter->list_data())
            EXPECT_THAT(weight.AsType(DType::kFloat32).ToVector(), Each(-step * (IsAsync() ? Workers() : 1)));
          kv->Barrier();
        }
      });
    }
  }
}

// With a divisor the gradients between the halves are finite, and a bound for ClipGlobalNorm is divided too.
TEST_P(HalfSumsOn, TheHalvesOfAStepAreGivenADivisor) {
  if (IsAsync()) return;
  MakeJob().RunShared([&](const std::shared_ptr<KVStore>& kv) {
    const nn::ParameterDict parameters = ZerosOnFourDevices(*kv);
    const auto& parameter = parameters.at(0);
    Trainer trainer(parameters, {.learning_rate = 1 / kBig}, kv, {.update_on_kvstore = false});
    const int64_t batch = 4 * Workers();
    const double divisor = 8;
    for (const double wrong : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()})
      EXPECT_NE(
          ErrorOf(ErrorCode::kInvalidArgument, [&] { trainer.AllreduceGrads(wrong); }).find("divisor is"),
          std::string::npos);
    EXPECT_NE(ErrorOf(ErrorCode::kInvalidArgument, [&] { trainer.AllreduceGrads(); }).find("give a divisor"),
              std::string::npos);
    const auto expect_all = [](const std::vector<NDArray>& arrays, double value) {
      for (const NDArray& array : arrays)
        EXPECT_THAT(array.AsType(DType::kFloat32).ToVector(), Each(static_cast<float>(value)));
    };
    const double sum = kBig * static_cast<double>(batch) / divisor;
    for (const bool overlap : {false, true}) {
      parameter->SetData(Filled(*kv, kLong, 0, 0, DType::kFloat16));
      if (overlap) trainer.PushDuringBackward(batch);  // with a divisor of its own: that of Step
      autograd::Backward(parameter->list_data(), Gradients(*kv, 4, kBig));
      trainer.AllreduceGrads(overlap ? 1 : divisor);
      expect_all(parameter->list_grad(), overlap ? kBig : sum);
      trainer.Update(batch);
      expect_all(parameter->list_data(), -1);
    }
    autograd::Backward(parameter->list_data(), Gradients(*kv, 4, kBig));
    trainer.AllreduceGrads(divisor);
    const double norm = kBig * std::sqrt(static_cast<double>(kLong.size()));
    for (const Context& context : parameter->list_ctx())
      ClipGlobalNorm({parameter->grad(context)}, norm / 2 * static_cast<double>(batch) / divisor);
    trainer.Update(batch);
    expect_all(parameter->list_data(), -1.5);
  });
}

}  // namespace
}  // namespace sluice::testing
