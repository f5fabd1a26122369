// 16-bit weights with float32 masters (multi_precision) on every type of store. The master accumulates steps
// that are too small for 16 bits, is saved with the optimiser's states, and follows weights that are set.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "base/rng.h"
#include "base/strings.h"
#include "contract/weight_key.h"
#include "data/safetensors/safetensors.h"
#include "golden/optimizer/formulas.h"
#include "sluice/store_type.h"

namespace sluice::testing {
namespace {

using ::testing::Each;

const Shape kLong = {300};
constexpr int kUpdates = 12;
const std::vector<std::string> kTypes = StoreTypes();

// Returns random multiples of 1/4: these, and sums of a few of them, are exact in 16 bits and in 32.
NDArray Random(uint64_t seed, Context context, DType dtype) {
  Rng rng(seed);
  std::vector<float> values(static_cast<size_t>(kLong.size()));
  for (float& value : values) value = (static_cast<float>(rng.Below(65)) - 32) / 4;
  return NDArray::From(std::span<const float>(values), kLong, context).AsType(dtype);
}

class Precision : public ::testing::TestWithParam<std::string> {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  bool IsAsync() const { return StoreType::Parse(GetParam()).async; }
  // Returns a bound with which the key is split over the servers, unless the optimiser needs its norm.
  static int64_t BoundFor(OptimizerKind kind) { return kind == OptimizerKind::kLamb ? 1000 : 100; }
  // Async stores have one worker, because the order of pushes from several would affect the result.
  Job MakeJob(OptimizerKind kind = OptimizerKind::kSgd) const {
    const bool several = StoreType::Parse(GetParam()).distributed && !IsAsync();
    return Job({.type = GetParam(), .workers = several ? 2 : 1, .bigarray_bound = BoundFor(kind)});
  }
  static std::vector<float> Pulled(KVStore& kv, const Key& key, DType dtype) {
    NDArray out = NDArray::Empty(kLong, DeviceOf(kv), dtype);
    kv.Pull(key, &out);
    return out.AsType(DType::kFloat32).ToVector();
  }
  static void PushRandom(KVStore& kv, const Key& key, int update, DType dtype) {
    kv.Push(key, Random(static_cast<uint64_t>(10 * update + kv.rank()), DeviceOf(kv), dtype));
  }
  static std::vector<float> Rounded(const std::vector<float>& values, DType dtype, Context context = cpu(0)) {
    return NDArray::From(std::span(values), kLong, context).AsType(dtype).AsType(DType::kFloat32).ToVector();
  }

  const std::string path_ =
      (std::filesystem::temp_directory_path() / StrCat("masters-of-", getpid(), ".safetensors")).string();
};

std::vector<OptimizerConfig> Optimizers() {
  const OptimizerConfig centered{.kind = OptimizerKind::kRmsProp, .learning_rate = 1e-4, .centered = true};
  std::vector<OptimizerConfig> configs = {centered};
  for (const std::string_view name : OptimizerNames()) {
    configs.push_back({.kind = *OptimizerKindOf(name), .learning_rate = 1e-4, .momentum = 0.75, .wd = 0.5});
    OptimizerConfig& config = configs.back();
    if (config.kind == OptimizerKind::kFtrl) config.learning_rate = 1e-2;
    if (config.kind == OptimizerKind::kSignum) config.wd_lh = 0.5;
    if (config.kind == OptimizerKind::kAccumulate) config.rescale_grad = 1e-4;
  }
  for (OptimizerConfig& config : configs) config.multi_precision = true;
  return configs;
}

TEST_P(Precision, StepsThatSixteenBitsLoseAddUpInTheMaster) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    MakeJob().Run([&](KVStore& kv) {
      const Key with("with"), without("without");
      // One step of all workers together is an eighth of a unit in the last place.
      const double step = dtype == DType::kFloat16 ? 0x1p-14 : 0x1p-11;
      for (const bool master : {true, false}) {
        const Key& key = master ? with : without;
        kv.Init(key, Filled(kv, kLong, 1, 0, dtype));
        kv.SetOptimizer({.learning_rate = 1, .multi_precision = master});
        kv.Barrier();
        for (int t = 1; t <= 16; ++t) kv.Push(key, Filled(kv, kLong, step / kv.num_workers(), 0, dtype));
        EXPECT_EQ(Pulled(kv, key, dtype),
                  std::vector<float>(300, static_cast<float>(master ? 1 - 16 * step : 1)));
        kv.Barrier();
      }
    });
  }
}

TEST_P(Precision, FtrlAddsUpInItsStatesWhatSixteenBitsLose) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    MakeJob().Run([&](KVStore& kv) {
      const OptimizerConfig ftrl{.kind = OptimizerKind::kFtrl, .learning_rate = 0.1, .lambda1 = 0};
      kv.Init(Key("w"), Filled(kv, kLong, 1, 0, dtype));
      kv.SetOptimizer(ftrl);
      kv.Barrier();
      reference::Element expected{.weight = 1};
      for (int t = 1; t <= 200; ++t) {
        kv.Push(Key("w"), Filled(kv, kLong, 0x1p-9 / kv.num_workers(), 0, dtype));
        reference::UpdateElement(ftrl, {.rate = 0.1}, 0x1p-9, &expected);
      }
      ASSERT_LT(expected.weight, 0.97);
      EXPECT_THAT(Pulled(kv, Key("w"), dtype),
                  Each(::testing::FloatNear(static_cast<float>(expected.weight), 0x1p-8f)));
      kv.Barrier();
    });
  }
}

TEST_P(Precision, TheWeightIsTheFloat32TrajectoryRounded) {
  for (const OptimizerConfig& config : Optimizers()) {
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      SCOPED_TRACE(StrCat(Name(config.kind), " ", Name(dtype)));
      MakeJob(config.kind).Run([&](KVStore& kv) {
        const Key narrow("narrow"), wide("wide");
        kv.Init(narrow, Random(1, DeviceOf(kv), dtype));
        kv.Init(wide, Random(1, DeviceOf(kv), DType::kFloat32));
        kv.SetOptimizer(config);
        kv.Barrier();
        for (int t = 1; t <= kUpdates; ++t) {
          PushRandom(kv, narrow, t, dtype);
          PushRandom(kv, wide, t, DType::kFloat32);
          EXPECT_EQ(Pulled(kv, narrow, dtype),
                    Rounded(Pulled(kv, wide, DType::kFloat32), dtype, DeviceOf(kv)))
              << t;
        }
      });
    }
  }
}

// The file of states contains the float32 master, and a store that loads it continues from there.
TEST_P(Precision, MastersAreSavedAndLoaded) {
  const DType dtype = DType::kFloat16;
  for (const OptimizerConfig& config : Optimizers()) {
    const auto train = [&](const std::string& type, int first, int last, const std::vector<float>& start,
                           bool load, bool save) {
      std::vector<float> end;
      Job({.type = type, .workers = 1, .bigarray_bound = BoundFor(config.kind)}).Run([&](KVStore& kv) {
        kv.SetOptimizer(config);  // here before Init; elsewhere after it
        kv.Init(kKey, NDArray::From(std::span(start), kLong, DeviceOf(kv)).AsType(dtype));
        if (load) kv.LoadOptimizerStates(path_);
        for (int t = first + 1; t <= last; ++t) PushRandom(kv, kKey, t, dtype);
        if (save) kv.SaveOptimizerStates(path_);
        end = Pulled(kv, kKey, dtype);
      });
      return end;
    };
    const std::vector<float> start = Random(1, cpu(0), DType::kFloat32).ToVector();
    const auto whole = train("local", 0, kUpdates, start, false, false);
    const auto half = train(GetParam(), 0, kUpdates / 2, start, false, true);
    const SafetensorsFile file = ReadSafetensors(path_).OrThrow();
    const TensorView* master = file.Find("weight/master");
    ASSERT_NE(master, nullptr);
    EXPECT_EQ(master->dtype, DType::kFloat32);
    std::vector<float> values(300);
    std::memcpy(values.data(), master->bytes.data(), master->bytes.size());
    EXPECT_NE(values, half);
    EXPECT_EQ(Rounded(values, dtype), half);
    for (const std::string& reader : kTypes)
      EXPECT_EQ(train(reader, kUpdates / 2, kUpdates, half, true, false), whole)
          << Name(config.kind) << " " << reader;
  }
}

TEST_P(Precision, AMasterStartsFromWhatWasAssigned) {
  MakeJob().Run([&](KVStore& kv) {
    const DType dtype = DType::kFloat16;
    kv.Init(kKey, Filled(kv, kLong, IsAsync() ? 8 : 1, 0, dtype));
    // The push assigns 8. Async stores take no push without an optimiser, so they start with 8.
    if (!IsAsync()) kv.Push(kKey, Filled(kv, kLong, 8.0 / kv.num_workers(), 0, dtype));
    kv.SetOptimizer({.learning_rate = 1, .multi_precision = true});
    kv.Barrier();
    for (int t = 1; t <= 16; ++t) kv.Push(kKey, Filled(kv, kLong, 0x1p-11 / kv.num_workers(), 0, dtype));
    EXPECT_EQ(Pulled(kv, kKey, dtype), std::vector<float>(300, 8 - 0x1p-7f));
  });
}

// When the optimiser changes, the master stays, and with it the sum of steps too small for 16 bits.
TEST_P(Precision, AMasterOutlivesItsOptimizer) {
  MakeJob().Run([&](KVStore& kv) {
    const DType dtype = DType::kFloat16;
    kv.Init(kKey, Filled(kv, kLong, 1, 0, dtype));
    const auto push_eight = [&](const OptimizerConfig& config) {
      kv.SetOptimizer(config);
      kv.Barrier();
      for (int t = 1; t <= 2; ++t) kv.Push(kKey, Filled(kv, kLong, 0x1p-13 / kv.num_workers(), 0, dtype));
      kv.WaitAll();
      kv.Barrier();
    };
    push_eight({.learning_rate = 1, .multi_precision = true});
    push_eight({.kind = OptimizerKind::kAccumulate, .rescale_grad = -1, .multi_precision = true});
    EXPECT_EQ(Pulled(kv, kKey, dtype), std::vector<float>(300, 1 - 0x1p-11f));
  });
}

INSTANTIATE_TEST_SUITE_P(Stores, Precision, ::testing::ValuesIn(kTypes),
                         [](const auto& info) { return "with_" + info.param; });

// After an updater has written a weight, the next optimiser starts from this weight, not from an
// older master.
TEST(PrecisionOfLocalStores, AMasterFollowsAWeightThatWasSet) {
  Job({.type = "local"}).Run([](KVStore& kv) {
    const OptimizerConfig config{.learning_rate = 1, .multi_precision = true};
    const auto push = [&](double value) { kv.Push(kKey, Filled(kv, kLong, value, 0, DType::kFloat16)); };
    kv.Init(kKey, Filled(kv, kLong, 1, 0, DType::kFloat16));
    kv.SetOptimizer(config);
    push(0x1p-13);
    kv.SetUpdater([](const Key&, const NDArray& gradient, NDArray& weight) { gradient.CopyTo(&weight); });
    push(4);
    kv.SetOptimizer(config);
    push(1);
    NDArray out = Filled(kv, kLong, 0, 0, DType::kFloat16);
    kv.Pull(kKey, &out);
    EXPECT_EQ(out.AsType(DType::kFloat32).ToVector(), std::vector<float>(300, 3));
  });
}

}  // namespace
}  // namespace sluice::testing
