// Updates on a card leave the bits that updates on a CPU leave, for every optimiser and type of weights, and
// their states go through files to a CPU and back.
#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.h"
#include "gpu/devices_of_machine.h"
#include "sluice/optimizer.h"
#include "sluice/trainer.h"
#include "tensor/access.h"
#include "tensor/cuda/launch.h"
#include "tensor/storage.h"
#include "unit/train/toy.h"

namespace sluice::testing {
namespace {

constexpr int64_t kCount = 70;

NDArray Random(Rng& rng, DType dtype, Context context, int64_t count = kCount) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(rng.Uniform(-2, 2)));
  NDArray array = NDArray::Empty({count}, context, dtype);
  NDArray::From(values, {count}).CopyTo(&array);
  return array;
}

// Pushes the gradients of all contexts `rounds` times.
void Push(KVStore& store, const std::vector<Context>& contexts, DType dtype, Rng& rng, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    std::vector<NDArray> gradients;
    for (const Context context : contexts) gradients.push_back(Random(rng, dtype, context));
    store.Push("w", gradients);
  }
}

std::vector<std::byte> Weight(KVStore& store, DType dtype, Context context, const Key& key = "w",
                              int64_t count = kCount) {
  NDArray out = NDArray::Empty({count}, context, dtype);
  store.Pull(key, out);
  std::vector<std::byte> bytes(static_cast<size_t>(count) * SizeOf(dtype));
  internal::CopyToHost(out, dtype, bytes);
  return bytes;
}

std::shared_ptr<KVStore> StoreWith(const OptimizerConfig& config, DType dtype, Context context) {
  Rng rng(3);
  std::shared_ptr<KVStore> store = StoreOf("device");
  store->Init("w", Random(rng, dtype, context));
  store->SetOptimizer(config);
  return store;
}

std::vector<OptimizerConfig> Configs() {
  std::vector<OptimizerConfig> all;
  for (const std::string_view name : OptimizerNames())
    for (const double momentum : {0.0, 0.9})
      for (const bool centered : {false, true}) {
        OptimizerConfig config{.kind = *OptimizerKindOf(name), .wd = 0.01, .clip_gradient = 1.5};
        if (ReadsMomentum(config.kind)) config.momentum = momentum;
        if (config.kind == OptimizerKind::kRmsProp) config.centered = centered;
        all.push_back(config);
      }
  return all;
}

class UpdatesOnCards : public ::testing::TestWithParam<DType> {
 protected:
  // What LAMB's norms give has other last bits.
  void ExpectAlike(const OptimizerConfig& config, const std::vector<std::byte>& actual,
                   const std::vector<std::byte>& expected) {
    if (config.kind != OptimizerKind::kLamb) {
      EXPECT_TRUE(actual == expected) << "other bits";
    } else if (GetParam() == DType::kFloat32) {
      for (size_t i = 0; i < actual.size(); i += sizeof(float)) {
        float a = 0, b = 0;
        std::memcpy(&a, actual.data() + i, sizeof a);
        std::memcpy(&b, expected.data() + i, sizeof b);
        EXPECT_NEAR(a, b, 1e-6);
      }
    }
  }
};
// Under TSan, where this takes minutes, two have all that is ordered.
std::vector<DType> TypesToTry() {
#ifdef __SANITIZE_THREAD__
  return {DType::kFloat32, DType::kFloat16};
#else
  return {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};
#endif
}
INSTANTIATE_TEST_SUITE_P(Types, UpdatesOnCards, ::testing::ValuesIn(TypesToTry()),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST_P(UpdatesOnCards, LeaveTheBitsOfACpu) {
  for (OptimizerConfig config : Configs())
    for (const bool master : {false, true}) {
      if (master && SizeOf(GetParam()) != 2) continue;
      config.multi_precision = master;
      SCOPED_TRACE(std::string(Name(config.kind)) + (master ? " with a master" : ""));
      const auto bits = [&](Context first, Context second) {
        Rng rng(5);
        const std::shared_ptr<KVStore> store = StoreWith(config, GetParam(), first);
        Push(*store, {first}, GetParam(), rng, 2);
        Push(*store, {first, second}, GetParam(), rng, 2);
        // As many as an update adds up, and more.
        Push(*store, {first, first, second, first}, GetParam(), rng, 1);
        Push(*store, {first, second, first, second, first}, GetParam(), rng, 1);
        return Weight(*store, GetParam(), first);
      };
      const std::vector<std::byte> expected = bits(cpu(0), cpu(1));
      cuda::DevicesOfMachine machine({.cards = 2, .seed = 2});
      ExpectAlike(config, bits(gpu(0), gpu(1)), expected);
    }
}

TEST_P(UpdatesOnCards, GoOnWithStatesFromAFile) {
  const std::string file = ::testing::TempDir() + "states_of_cards_" + std::string(Name(GetParam()));
  for (const OptimizerConfig& config : Configs()) {
    SCOPED_TRACE(Name(config.kind));
    const auto start = [&](Context context, Rng& rng) {
      const std::shared_ptr<KVStore> store = StoreWith(config, GetParam(), context);
      Push(*store, {context}, GetParam(), rng, 3);
      return store;
    };
    Rng rng(5);
    const std::shared_ptr<KVStore> on_host = start(cpu(0), rng);
    Push(*on_host, {cpu(0)}, GetParam(), rng, 1);
    const std::vector<std::byte> expected = Weight(*on_host, GetParam(), cpu(0));
    cuda::DevicesOfMachine machine({.seed = 2});
    Rng same(5);
    const std::shared_ptr<KVStore> saves = start(gpu(0), same);
    saves->WaitAll();
    saves->SaveOptimizerStates(file);
    NDArray weight = NDArray::Empty({kCount}, gpu(0), GetParam());
    saves->Pull("w", weight);
    const std::shared_ptr<KVStore> loads = StoreOf("device");
    loads->Init("w", weight);
    loads->SetOptimizer(config);
    loads->LoadOptimizerStates(file);
    Push(*loads, {gpu(0)}, GetParam(), same, 1);
    ExpectAlike(config, Weight(*loads, GetParam(), gpu(0)), expected);
  }
}

// The first push of several gradients may move a weight to another device: its states go along.
TEST(UpdatesOnCards, StatesFollowAWeightThatMoves) {
  const auto bits = [](Context first, Context second) {
    Rng rng(5);
    const std::shared_ptr<KVStore> store = StoreOf("device");
    const std::vector<std::string> names = {"a", "b"};
    for (const std::string& name : names) store->Init(name, Random(rng, DType::kFloat32, first));
    store->SetOptimizer({.kind = OptimizerKind::kAdam});
    for (const std::string& name : names) store->Push(name, Random(rng, DType::kFloat32, first));
    std::vector<std::vector<float>> weights;
    for (const std::string& name : names) {
      const NDArray one = Random(rng, DType::kFloat32, first), other = Random(rng, DType::kFloat32, second);
      store->Push(name, {one, other});
      NDArray out({kCount}, first);
      store->Pull(name, out);
      weights.push_back(out.ToVector<float>());
    }
    return weights;
  };
  const auto expected = bits(cpu(0), cpu(1));
  cuda::DevicesOfMachine machine({.cards = 3, .seed = 8});
  EXPECT_EQ(bits(gpu(0), gpu(1)), expected);
  EXPECT_EQ(bits(gpu(2), cpu(1)), expected);
  EXPECT_EQ(bits(cpu(0), gpu(2)), expected);
}

// Without an optimiser the sum is assigned; integers are summed and accumulated, and wrap.
TEST(UpdatesOnCards, AssignAndAccumulateEveryType) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                            DType::kInt32, DType::kInt64, DType::kUInt8})
    for (const bool accumulates : {false, true}) {
      SCOPED_TRACE(std::string(Name(dtype)) + (accumulates ? " accumulated" : " assigned"));
      const auto bits = [&](Context context) {
        const std::shared_ptr<KVStore> store = StoreOf("device");
        NDArray x = NDArray::Empty({kCount}, context, dtype);
        x.Fill(100);
        store->Init("w", x);
        if (accumulates) store->SetOptimizer({.kind = OptimizerKind::kAccumulate, .rescale_grad = 2});
        for (int i = 0; i < 3; ++i) store->Push("w", x);
        store->Push("w", {x, x, x});
        return Weight(*store, dtype, context);
      };
      const std::vector<std::byte> expected = bits(cpu(0));
      cuda::DevicesOfMachine machine;
      EXPECT_TRUE(bits(gpu(0)) == expected);
    }
}

// Arrays of a call share kernels, which take so many arrays and divide each among blocks.
TEST_P(UpdatesOnCards, OfManyArraysTogetherLeaveTheBitsOfACpu) {
  constexpr int64_t kChunk = int64_t{16} * cuda::kThreads;
  constexpr int64_t kSizes[] = {1, 0, 70, kChunk - 1, kChunk, kChunk + 1, 3 * kChunk - 7, 5};
  std::vector<Key> keys;
  for (int i = 0; i < 130; ++i) keys.emplace_back(i);
  for (const OptimizerKind kind : {OptimizerKind::kAdam, OptimizerKind::kLamb}) {
    SCOPED_TRACE(Name(kind));
    OptimizerConfig config{.kind = kind, .wd = 0.01, .multi_precision = SizeOf(GetParam()) == 2};
    config.multipliers["4"] = {.lr_mult = 3, .wd_mult = 1};
    for (const int without_decay : {5, 6, 127, 129})
      config.multipliers[std::to_string(without_decay)] = {.lr_mult = 1, .wd_mult = 0};
    const auto bits = [&](Context context) {
      Rng rng(7);
      const auto arrays = [&] {
        std::vector<NDArray> all;
        for (size_t i = 0; i < keys.size(); ++i)
          all.push_back(Random(rng, GetParam(), context, kSizes[i % std::size(kSizes)]));
        return all;
      };
      const std::shared_ptr<KVStore> store = StoreOf("device");
      store->Init(keys, arrays());
      store->SetOptimizer(config);
      for (int round = 0; round < 3; ++round) store->Push(keys, ArrayLists(arrays()));
      std::vector<std::byte> weights;
      for (size_t i = 0; i < keys.size(); ++i) {
        const std::vector<std::byte> one =
            Weight(*store, GetParam(), context, keys[i], kSizes[i % std::size(kSizes)]);
        weights.insert(weights.end(), one.begin(), one.end());
      }
      return weights;
    };
    const std::vector<std::byte> expected = bits(cpu(0));
    cuda::DevicesOfMachine machine({.seed = 4});
    ExpectAlike(config, bits(gpu(0)), expected);
  }
}

// The update of a PushPull writes what is pulled on its card, unless it is read, or written for another key.
TEST(UpdatesOnCards, OfAPushPullWriteWhatIsPulled) {
  const auto bits = [](Context here, Context other) {
    Rng rng(9);
    const std::shared_ptr<KVStore> store = StoreOf("device");
    const std::vector<Key> keys = {"a", "b", "c", "d", "e", "f"};
    std::vector<NDArray> weights, gradients;
    for (size_t i = 0; i < keys.size(); ++i) {
      weights.push_back(Random(rng, DType::kFloat32, here));
      gradients.push_back(Random(rng, DType::kFloat32, here));
    }
    store->Init(keys, weights);
    store->SetOptimizer({.kind = OptimizerKind::kSgd, .learning_rate = 0.1, .momentum = 0.9});
    const auto out = [](Context context) { return NDArray({kCount}, context); };
    const NDArray shared = out(here), late = out(here);
    NDArray flat({2 * kCount}, here);  // two keys are pulled into the halves of an array
    const NDArray first_half = internal::ViewOf(flat, {kCount}),
                  second_half = internal::ViewOf(flat, {kCount}, kCount);
    const std::vector<KVStore::Values> outs = {{out(here), out(other), out(here), out(cpu(0)), out(here)},
                                               {gradients[0], shared},
                                               {shared, first_half},
                                               {second_half},
                                               {out(here), out(here), late, gradients[5]},
                                               {late, gradients[5]}};
    std::vector<KVStore::Values> pushed;
    for (const NDArray& gradient : gradients) pushed.push_back({gradient});
    std::vector<std::vector<float>> all;
    for (int round = 0; round < 3; ++round) {
      store->PushPull(keys, ArrayLists(pushed), ArrayLists(outs));
      for (const KVStore::Values& of_key : outs)
        for (const NDArray& array : of_key) all.push_back(array.ToVector());
    }
    return all;
  };
  const std::vector<std::vector<float>> expected = bits(cpu(0), cpu(1));
  for (const uint64_t seed : {0, 1, 2, 3}) {
    cuda::DevicesOfMachine machine({.cards = 2, .seed = seed});
    EXPECT_EQ(bits(gpu(0), gpu(1)), expected) << seed;
  }
}

TEST(UpdatesOnCards, OfATrainersStepShareALaunch) {
  cuda::DevicesOfMachine machine;
  std::vector<std::shared_ptr<nn::Parameter>> parameters;
  nn::ParameterDict dict;
  for (int i = 0; i < 20; ++i) {
    parameters.push_back(MakeParameter("p" + std::to_string(i), {1, 2, 3}, {gpu(0)}));
    dict.Add(parameters.back());
  }
  for (const bool on_kvstore : {true, false}) {
    SCOPED_TRACE(on_kvstore);
    Trainer trainer(dict, {.kind = OptimizerKind::kAdam}, StoreOf("device"),
                    {.update_on_kvstore = on_kvstore});
    for (int step = 0; step < 2; ++step) {  // the first one makes the states
      for (const auto& parameter : parameters) BackwardWith(*parameter, {{1, 1, 1}});
      for (const auto& parameter : parameters) parameter->grad(gpu(0)).WaitToRead();
      const int64_t before = machine->grids();
      trainer.Step(1);
      for (const auto& parameter : parameters) parameter->data(gpu(0)).WaitToRead();
      // Without an optimiser the store assigns the gradients, and the Trainer updates the weights.
      if (step == 1) {
        EXPECT_EQ(machine->grids() - before, on_kvstore ? 1 : 2);
      }
    }
  }
}

// Gradients of one card are summed by the update itself, which reads all of them before it writes one.
TEST(UpdatesOnCards, AddUpGradientsThatAreOverwritten) {
  constexpr size_t kKeys = 20;
  std::vector<Key> keys;
  for (size_t i = 0; i < kKeys; ++i) keys.emplace_back(static_cast<int64_t>(i));
  for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
    SCOPED_TRACE(Name(dtype));
    std::optional<int64_t> grids;
    const auto bits = [&](Context context, cuda::DevicesOfMachine* machine) {
      Rng rng(11);
      const std::shared_ptr<KVStore> store = StoreOf("device");
      const auto arrays = [&] {
        std::vector<NDArray> all;
        for (size_t i = 0; i < kKeys; ++i) all.push_back(Random(rng, dtype, context));
        return all;
      };
      store->Init(keys, arrays());
      store->SetOptimizer({.kind = OptimizerKind::kNag, .learning_rate = 0.1});
      std::vector<std::vector<std::byte>> all;
      for (int round = 0; round < 3; ++round) {
        const std::vector<NDArray> firsts = arrays(), seconds = arrays();
        std::vector<KVStore::Values> values;
        for (size_t i = 0; i < kKeys; ++i) {
          values.push_back({firsts[i], seconds[i]});
          for (const NDArray& value : values.back()) value.WaitToRead();
        }
        const int64_t before = machine == nullptr ? 0 : (*machine)->grids();
        store->PushPull(keys, values);
        for (const KVStore::Values& of_key : values) {
          for (const NDArray& value : of_key) value.WaitToRead();
        }
        if (machine != nullptr && round == 2) grids = (*machine)->grids() - before;
        for (const KVStore::Values& of_key : values) {
          for (const NDArray& value : of_key) {
            all.emplace_back(static_cast<size_t>(kCount) * SizeOf(dtype));
            internal::CopyToHost(value, dtype, all.back());
          }
        }
      }
      return all;
    };
    const std::vector<std::vector<std::byte>> expected = bits(cpu(0), nullptr);
    cuda::DevicesOfMachine machine({.seed = 6});
    EXPECT_TRUE(bits(gpu(0), &machine) == expected);
    EXPECT_EQ(grids, 1) << "launches of a call";
  }
}

}  // namespace
}  // namespace sluice::testing
