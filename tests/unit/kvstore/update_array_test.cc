// Updates of whole arrays, several in one operation.
#include "kvstore/update_array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "base/rng.h"
#include "kvstore/update/states.h"
#include "tensor/access.h"
#include "tensor/devices.h"
#include "unit/expect_error.h"
#include "unit/tensor/gate.h"

namespace sluice::kvstore {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

// Counts what is enqueued on its stream.
class CountingDevice final : public Device, private Stream {
 public:
  CountingDevice(std::shared_ptr<Device> device, std::atomic<int>* count)
      : device_(std::move(device)), count_(count) {}
  Stream& stream() override { return *this; }
  const std::shared_ptr<Allocator>& allocator() override { return device_->allocator(); }
  const std::shared_ptr<Allocator>& records() override { return device_->records(); }
  Kernels& kernels() override { return device_->kernels(); }
  void SetShare(const CpuShare& share) override { device_->SetShare(share); }

 private:
  Event Enqueue(Label what, std::span<const Event> after, Work work) override {
    ++*count_;
    return device_->stream().Enqueue(std::move(what), after, std::move(work));
  }
  void Drain(Duration timeout) override { device_->stream().Drain(timeout); }

  const std::shared_ptr<Device> device_;
  std::atomic<int>* const count_;
};

class UpdateArrayTest : public ::testing::Test {
 protected:
  UpdateArrayTest() {
    Devices::SetDefault(std::make_shared<Devices>(
        DevicesOptions{.threads_per_cpu_context = 3, .wrap_device = [this](std::shared_ptr<Device> device) {
                         return std::make_shared<CountingDevice>(std::move(device), &operations_);
                       }}));
  }
  ~UpdateArrayTest() override { Devices::SetDefault(nullptr); }

  std::atomic<int> operations_ = 0;
};

// An array that is updated by EnqueueUpdates, and its like that UpdatePart updates here.
class Twins {
 public:
  Twins(const OptimizerConfig& config, const std::string& name, int64_t n, DType dtype, Context context)
      : weight_(Random(n, dtype, context)), gradient_(Random(n, dtype, context)) {
    rule_.optimizer = Optimizer::Create(config);
    spec_ = {name, dtype, Shape{n}};
    for (States* states : {&states_, &twin_states_})
      FitStates(rule_.optimizer.get(), dtype, static_cast<size_t>(n), states);
    const Bytes weight = HostBytes(weight_), gradient = HostBytes(gradient_);
    twin_.assign(weight.begin(), weight.end());
    twin_gradient_.assign(gradient.begin(), gradient.end());
  }
  PendingUpdate Pending(int64_t num_update) {
    return {"update of key " + std::get<std::string>(spec_.name),
            std::make_shared<const ArrayRule>(ArrayRule{rule_, spec_, states_.arrays}),
            Input(num_update),
            {gradient_},
            weight_,
            {}};
  }
  void UpdateTwin(int64_t num_update) {
    UpdateInput input = Input(num_update);
    const compression::Encoded gradients[] = {{twin_gradient_.data()}};
    input.gradients = gradients;
    input.spec = &spec_;
    if (rule_.needs_norms()) {
      Optimizer::Norms norms;
      MeasurePart(rule_, input, twin_.data(), twin_states_.arrays, &norms);
      input.norms = norms;
    }
    UpdatePart(rule_, input, twin_.data(), twin_.data(), twin_states_.arrays);
  }
  bool Alike() const {
    weight_.WaitToRead();
    const Bytes weight = HostBytes(weight_);
    if (std::memcmp(weight.data(), twin_.data(), twin_.size()) != 0) return false;
    for (size_t i = 0; i < states_.arrays.size(); ++i) {
      const Buffer &a = *states_.arrays[i], &b = *twin_states_.arrays[i];
      if (std::memcmp(a.data(), b.data(), a.size()) != 0) return false;
    }
    return true;
  }

 private:
  UpdateInput Input(int64_t num_update) const {
    UpdateInput input;
    input.length = static_cast<size_t>(spec_.shape.size());
    input.scale = 1.0 / 3;
    input.num_update = num_update;
    return input;
  }
  static NDArray Random(int64_t n, DType dtype, Context context) {
    Rng rng(static_cast<uint64_t>(n) + 1);
    std::vector<float> values(static_cast<size_t>(n));
    for (float& value : values) value = static_cast<float>(rng.Below(2000)) / 1000 - 1;
    const NDArray array = NDArray::From(std::span<const float>(values), {n}, context).AsType(dtype);
    array.WaitToRead();
    return array;
  }

  UpdateRule rule_;
  wire::KeySpec spec_;
  NDArray weight_, gradient_;
  States states_, twin_states_;
  std::vector<std::byte> twin_, twin_gradient_;
};

class UpdatesTogether : public UpdateArrayTest, public ::testing::WithParamInterface<OptimizerKind> {};
INSTANTIATE_TEST_SUITE_P(Of, UpdatesTogether,
                         ::testing::Values(OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kLamb),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST_P(UpdatesTogether, AreThoseOfEachAloneToTheLastBit) {
  OptimizerConfig config{.kind = GetParam(), .learning_rate = 0.1, .multi_precision = true};
  if (config.kind == OptimizerKind::kSgd) config.momentum = 0.9;
  config.multipliers["b"] = {.lr_mult = 3, .wd_mult = 1};
  std::vector<Twins> arrays;
  const auto add = [&](const char* name, int64_t n, DType dtype, int context) {
    arrays.emplace_back(config, name, n, dtype, cpu(context));
  };
  add("a", 1, DType::kFloat32, 0);
  add("b", 40'001, DType::kFloat32, 0);
  add("c", 20, DType::kFloat16, 0);
  add("d", 70'000, DType::kFloat64, 1);
  add("e", 16'384, DType::kBFloat16, 0);
  add("f", 3, DType::kFloat32, 1);
  add("g", 100'003, DType::kFloat32, 0);
  for (int64_t step = 1; step <= 3; ++step) {
    std::vector<PendingUpdate> updates;
    for (Twins& array : arrays) updates.push_back(array.Pending(step));
    operations_ = 0;
    EnqueueUpdates(updates);
    EXPECT_EQ(operations_, 2);  // contexts
    for (const PendingUpdate& update : updates) update.done.Wait();
    for (Twins& array : arrays) array.UpdateTwin(step);
    for (size_t i = 0; i < arrays.size(); ++i) EXPECT_TRUE(arrays[i].Alike()) << i << " at step " << step;
  }
}

TEST_F(UpdateArrayTest, OneThatCannotBeMadeHindersNoOther) {
  const UpdateRule rule{.optimizer = Optimizer::Create({.learning_rate = 1}), .updater = nullptr};
  std::vector<NDArray> weights, gradients;
  std::vector<PendingUpdate> updates;
  for (const char* name : {"a", "b", "c"}) {
    weights.push_back(NDArray({40'000}));
    gradients.push_back(NDArray({40'000}));
    gradients.back().Fill(-2);
    UpdateInput input;
    input.length = 40'000;
    const wire::KeySpec spec{std::string(name), DType::kFloat32, Shape{40'000}};
    updates.push_back({std::string("update of key ") + name,
                       std::make_shared<const ArrayRule>(ArrayRule{rule, spec, {}}),
                       input,
                       {gradients.back()},
                       weights.back(),
                       {}});
  }
  Gate from_outside;
  SetWriter(gradients[1], from_outside.event());
  EnqueueUpdates(updates);
  from_outside.Fail("the cable is cut");
  EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { updates[1].done.Wait(); }),
              AllOf(HasSubstr("operation update of key b: "), HasSubstr("the cable is cut")));
  EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { weights[1].ToVector(); }), HasSubstr("key b"));
  for (const size_t other : {0u, 2u}) {
    updates[other].done.Wait();
    EXPECT_THAT(weights[other].ToVector(), Each(2));
  }
  weights[1].Fill(5);  // written anew, it is readable again
  EXPECT_THAT(weights[1].ToVector(), Each(5));
}

TEST_F(UpdateArrayTest, NothingIsNoOperation) {
  EnqueueUpdates({});
  EXPECT_EQ(operations_, 0);
}

}  // namespace
}  // namespace sluice::kvstore
