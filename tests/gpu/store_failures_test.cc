// Stores on cards whose calls of the CUDA runtime fail: whichever fails, the store gives the right values or
// an error that names what failed, and nothing hangs or leaks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "contract/job.h"
#include "gpu/devices_of_machine.h"
#include "gpu/runtime/nccl.h"
#include "unit/data/temporary_folder.h"

namespace sluice::testing {
namespace {

using cuda::DevicesOfMachine;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int64_t kRows = 6, kColumns = 5;
// With a sanitizer, where a job takes many times as long, every so many calls fail.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int64_t kStride = 23;
#else
constexpr int64_t kStride = 1;
#endif

std::vector<float> Pulled(KVStore& kv, const Key& key) {
  std::vector<NDArray> outs = {Filled(kv, {kRows, kColumns}, 0), Filled(kv, {kRows, kColumns}, 0, 1)};
  kv.Pull({key}, {outs});
  std::vector<float> values;
  for (const NDArray& out : outs)
    for (const float value : out.ToVector<float>()) values.push_back(value);
  return values;
}

// Uses every way in which a store moves arrays of two cards, and returns what is left in it.
std::vector<float> UseArrays(KVStore& kv) {
  const Shape shape = {kRows, kColumns};
  kv.SetOptimizer({.kind = OptimizerKind::kSgd, .learning_rate = 0.5, .momentum = 0.5});
  kv.Init({"a", "b"}, {Filled(kv, shape, 1), Filled(kv, shape, 2)});
  kv.InitRowSparse("rows", shape, DType::kFloat32, {});
  for (int step = 0; step < 2; ++step) {
    kv.Push({"a", "b"}, {{Filled(kv, shape, 1), Filled(kv, shape, 2, 1)},
                         {Filled(kv, shape, 3, 1), Filled(kv, shape, step)}});
    const std::vector<int64_t> ids = {1, 4};
    const RowSparse gradient{NDArray::From(ids, {2}, DeviceOf(kv)), Filled(kv, {2, kColumns}, 1)};
    kv.PushRowSparse("rows", gradient);
  }
  NDArray both = Filled(kv, shape, 1);
  kv.PushPull("a", both);
  std::vector<float> values = both.ToVector<float>();
  for (const char* key : {"a", "b"})
    for (const float value : Pulled(kv, key)) values.push_back(value);
  RowSparse rows{NDArray::From(std::vector<int64_t>{4, 0}, {2}, DeviceOf(kv, 1)),
                 Filled(kv, {2, kColumns}, 9, 1)};
  kv.RowSparsePull("rows", rows.ids, &rows.rows);
  for (const float value : rows.rows.ToVector<float>()) values.push_back(value);
  kv.WaitAll();
  return values;
}

// Gradients that are encoded, whose remainders stay on the worker.
std::vector<float> UseCompression(KVStore& kv) {
  const Shape shape = {kRows, kColumns};
  kv.SetGradientCompression({.type = Compression::k2Bit, .threshold = 2});
  kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
  kv.Init("a", Filled(kv, shape, 1));
  for (int step = 0; step < 3; ++step) kv.Push({"a"}, {{Filled(kv, shape, 0.5), Filled(kv, shape, 0.75, 1)}});
  std::vector<float> values = Pulled(kv, "a");
  kv.WaitAll();
  return values;
}

// States that are saved, changed by a push and brought back. A value is set as well.
std::vector<float> UseStates(KVStore& kv) {
  const Shape shape = {kRows, kColumns};
  const TemporaryFolder folder;
  kv.SetOptimizer({.kind = OptimizerKind::kAdam, .learning_rate = 0.5});
  kv.Init("a", Filled(kv, shape, 1));
  const auto push = [&] { kv.Push({"a"}, {{Filled(kv, shape, 1), Filled(kv, shape, 2, 1)}}); };
  push();
  kv.SaveOptimizerStates(folder.path("states"));
  push();
  kv.LoadOptimizerStates(folder.path("states"));
  kv.Set("a", Filled(kv, shape, 3, 1));
  push();
  std::vector<float> values = Pulled(kv, "a");
  kv.WaitAll();
  return values;
}

struct Use {
  std::string type, what;
  std::vector<float> (*run)(KVStore& kv);
};

std::vector<Use> Uses() {
  std::vector<Use> uses;
  for (const std::string& type : StoreTypes()) uses.push_back({type, "arrays", UseArrays});
  for (const char* type : {"device", "nccl", "dist_sync", "dist_device_async"})
    uses.push_back({type, "states", UseStates});
  for (const char* type : {"dist_sync", "dist_device_sync", "dist_async"})
    uses.push_back({type, "compression", UseCompression});
  return uses;
}

// What an error says of what failed.
constexpr const char* kWhat =
    "gpu\\([01]\\) cannot be opened|of gpu\\([01]\\) cannot be made|the thread that waits for "
    "gpu\\([01]\\)|an array \\[|operation [a-z]|NCCL failed on gpu|"
    "(push|pull|push_pull|set|update) of ";

std::ostream& operator<<(std::ostream& out, const Use& use) {
  return out << use.what << " in " << use.type;
}

class StoreOnFailingCards : public ::testing::TestWithParam<Use> {
 protected:
  // Waits for everything; what fails besides is thrown one by one.
  static void HearFailures(KVStore& kv) {
    for (bool failed = true; failed;) {
      try {
        kv.WaitAll();
        failed = false;
      } catch (const Error&) {
        failed = true;
      }
    }
  }
  // Returns what is left in the store, or nothing and the error that a call has thrown. `begin` is called
  // before it.
  static std::optional<std::vector<float>> Try(
      std::string* error, const std::function<void()>& begin = [] {}) {
    std::optional<std::vector<float>> values;
    try {
      Job({.type = GetParam().type, .workers = 1, .servers = 1}).Run([&](KVStore& kv) {
        begin();
        try {
          values = GetParam().run(kv);
        } catch (const Error& thrown) {
          *error = thrown.what();
        }
        HearFailures(kv);
      });
    } catch (const Error& thrown) {
      *error = thrown.what();
    }
    return values;
  }
  // Makes fault `number` of a machine happen for each number that a use without faults reaches. Expects the
  // right values, or an error that names what it was about: an operation, and a card or CUDA's call.
  static void TryEach(int64_t (emulation::Machine::*reached)() const,
                      const std::function<void(emulation::Machine& machine, int64_t number)>& fail) {
    std::optional<std::vector<float>> expected;
    int64_t numbers = 0;
    std::string error;
    {
      DevicesOfMachine machine({.cards = 2});
      const emulation::Nccl nccl;
      expected = Try(&error);
      numbers = (machine.operator->()->*reached)();
    }
    ASSERT_TRUE(expected) << error;
    ASSERT_GT(numbers, 5);
    int64_t failures = 0;
    for (int64_t number = 0; number < numbers; number += kStride) {
      SCOPED_TRACE(number);
      DevicesOfMachine machine({.cards = 2});
      const emulation::Nccl nccl;
      fail(*machine.operator->(), number);
      error.clear();
      const auto start = std::chrono::steady_clock::now();
      const auto values = Try(&error);
      if (std::chrono::steady_clock::now() - start > 2s)
        std::cerr << "SLOW " << number << " " << GetParam().type << GetParam().what << " " << error << "\n";
      if (values) {
        EXPECT_EQ(*values, *expected);
      } else {
        ++failures;
        EXPECT_THAT(error, AnyOf(HasSubstr("gpu("), HasSubstr("cuda"), HasSubstr("CUDA"), HasSubstr("NCCL")));
        EXPECT_THAT(error, ::testing::ContainsRegex(kWhat));
      }
      EXPECT_EQ(nccl.communicators(), 0);
    }
    EXPECT_GT(failures, numbers / kStride / 4);
  }
};
INSTANTIATE_TEST_SUITE_P(Stores, StoreOnFailingCards, ::testing::ValuesIn(Uses()),
                         [](const auto& info) { return info.param.type + "_" + info.param.what; });

TEST_P(StoreOnFailingCards, GiveTheRightValuesOrAnErrorAndNothingHangsOrLeaks) {
  TryEach(&emulation::Machine::calls, [](emulation::Machine& machine, int64_t call) {
    machine.FailCall(call, call % 2 == 0 ? cudaErrorMemoryAllocation : cudaErrorLaunchFailure);
  });
}

// A card is lost in the middle: no call for it works any more.
TEST_P(StoreOnFailingCards, EndWhenACardIsLost) {
  TryEach(&emulation::Machine::grids,
          [](emulation::Machine& machine, int64_t grid) { machine.FailGrid(grid); });
}

}  // namespace
}  // namespace sluice::testing
