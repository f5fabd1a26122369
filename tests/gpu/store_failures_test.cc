// Stores on cards whose calls of the CUDA runtime fail: whichever fails, the store gives the right values or
// an error that names what failed, and nothing hangs or leaks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "contract/job.h"
#include "gpu/devices_of_machine.h"
#include "gpu/runtime/nccl.h"

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
std::vector<float> Use(KVStore& kv) {
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

class StoreOnFailingCards : public ::testing::TestWithParam<std::string> {
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
  // Returns what Use does, or the error that it throws.
  static std::optional<std::vector<float>> Try(const std::string& type, std::string* error) {
    std::optional<std::vector<float>> values;
    try {
      Job({.type = type, .workers = 1, .servers = 1}).Run([&](KVStore& kv) {
        try {
          values = Use(kv);
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
};
INSTANTIATE_TEST_SUITE_P(Stores, StoreOnFailingCards, ::testing::ValuesIn(SyncStoreTypes()),
                         [](const auto& info) { return info.param; });

TEST_P(StoreOnFailingCards, GiveTheRightValuesOrAnErrorAndNothingHangsOrLeaks) {
  std::optional<std::vector<float>> expected;
  int64_t calls = 0;
  std::string error;
  {
    DevicesOfMachine machine({.cards = 2});
    const emulation::Nccl nccl;
    expected = Try(GetParam(), &error);
    calls = machine->calls();
  }
  ASSERT_TRUE(expected) << error;
  ASSERT_GT(calls, 100);
  int64_t failures = 0;
  for (int64_t call = 0; call < calls; call += kStride) {
    SCOPED_TRACE(call);
    DevicesOfMachine machine({.cards = 2});
    const emulation::Nccl nccl;
    machine->FailCall(call, call % 2 == 0 ? cudaErrorMemoryAllocation : cudaErrorLaunchFailure);
    error.clear();
    const auto values = Try(GetParam(), &error);
    if (values) {
      EXPECT_EQ(*values, *expected);
    } else {
      ++failures;
      EXPECT_THAT(error, AnyOf(HasSubstr("gpu("), HasSubstr("cuda"), HasSubstr("CUDA"), HasSubstr("NCCL")));
    }
    EXPECT_EQ(nccl.communicators(), 0);
  }
  EXPECT_GT(failures, calls / kStride / 4);
}

}  // namespace
}  // namespace sluice::testing
