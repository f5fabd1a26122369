// Large keys on cards travel in ranges: values as if each key went whole, and what fails halfway is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <map>
#include <mutex>

#include "contract/job.h"
#include "gpu/devices_of_machine.h"

namespace sluice::testing {
namespace {

using cuda::DevicesOfMachine;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// With a sanitizer, where a job takes many times as long, every so many calls fail.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int64_t kStride = 7;
#else
constexpr int64_t kStride = 1;
#endif
constexpr int64_t kElements = (2 << 20) + 3;  // 8 MiB and 12 bytes: three ranges for one shard

// Returns values that all differ from their neighbours, scaled.
const std::vector<float>& RampValues(float scale) {
  static std::mutex mutex;
  static std::map<float, std::vector<float>> made;
  const std::lock_guard lock(mutex);
  std::vector<float>& values = made[scale];
  if (!values.empty()) return values;
  values.resize(kElements);
  for (size_t i = 0; i < values.size(); ++i) values[i] = scale * static_cast<float>(i % 1021);
  return values;
}

NDArray Ramp(const KVStore& kv, float scale, int device = 0) {
  return NDArray::From(RampValues(scale), {kElements}, DeviceOf(kv, device));
}

// Expects the elements of Ramp(scale), and names the first other one.
void ExpectRamp(const NDArray& array, float scale) {
  const std::vector<float> values = array.ToVector();
  const std::vector<float>& wanted = RampValues(scale);
  ASSERT_EQ(values.size(), wanted.size());
  if (std::memcmp(values.data(), wanted.data(), values.size() * sizeof(float)) == 0) return;
  const auto [found, expected] = std::mismatch(values.begin(), values.end(), wanted.begin());
  if (found != values.end())
    FAIL() << "element " << found - values.begin() << " is " << *found << ", not " << *expected;
}

class LargeKeysOnCards : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Stores, LargeKeysOnCards,
                         ::testing::Values("dist_sync", "dist_device_sync", "dist_async"),
                         [](const auto& info) { return info.param; });

TEST_P(LargeKeysOnCards, ArePushedAndPulled) {
  DevicesOfMachine machine({.cards = 11, .seed = 3});  // worker 1 has gpu(10)
  const bool async = GetParam() == "dist_async";       // where a pull sees what one worker has pushed
  const int workers = async ? 1 : 2;
  Job({.type = GetParam(), .workers = workers, .servers = 2}).Run([&](KVStore& kv) {
    NDArray weight = Ramp(kv, 0);
    kv.Init("w", weight);
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    const auto n = static_cast<float>(workers);
    const NDArray gradient = Ramp(kv, 2);
    for (float round = 1; round <= 2; ++round) {
      kv.PushPull("w", gradient, &weight);
      ExpectRamp(weight, 2 * n * round);
    }
    kv.Push("w", gradient);
    kv.Pull("w", &weight);
    ExpectRamp(weight, 6 * n);
    NDArray latest = Ramp(kv, 0);
    kv.PullLatest("w", &latest);
    ExpectRamp(latest, 6 * n);
  });
}

TEST_P(LargeKeysOnCards, OfTwoCardsAreSummedAndCopiedToBoth) {
  DevicesOfMachine machine({.cards = 2, .seed = 4});
  Job({.type = GetParam(), .workers = 1, .servers = 1, .server_threads = 2}).Run([&](KVStore& kv) {
    const NDArray here = Ramp(kv, 0), there = Ramp(kv, 0, 1);
    kv.Init("w", here);
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    for (float round = 1; round <= 2; ++round) {
      kv.PushPull({"w"}, {{Ramp(kv, 1), Ramp(kv, 2, 1)}}, {{here, there}});
      ExpectRamp(here, 3 * round);
      ExpectRamp(there, 3 * round);
    }
  });
}

// What the program does with a pulled array waits for all of it.
TEST_P(LargeKeysOnCards, AnArrayIsPushedAndPulledInPlace) {
  DevicesOfMachine machine({.seed = 5});
  Job({.type = GetParam(), .workers = 1, .servers = 2}).Run([&](KVStore& kv) {
    kv.Init("w", Ramp(kv, 1));
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    NDArray array = Ramp(kv, 1);
    for (int i = 0; i < 3; ++i) kv.PushPull("w", array);  // w += array; array = w
    ExpectRamp(array, 8);
  });
}

TEST_P(LargeKeysOnCards, AreEncodedAsOtherKeysAre) {
  DevicesOfMachine machine({.seed = 6});
  Job({.type = GetParam(), .workers = 1, .servers = 1}).Run([&](KVStore& kv) {
    NDArray weight = Ramp(kv, 0);
    kv.Init("w", weight);
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.SetGradientCompression({.weights = Compression::kFloat16});
    kv.PushPull("w", Ramp(kv, 1.0f / 3), &weight);
    EXPECT_EQ(weight.ToVector()[1], 0.333251953125f) << "in float16";
  });
}

// What 2bit has left out of the gradients goes with the next one, also after it has been switched off.
TEST_P(LargeKeysOnCards, AResidualIsSentAfterCompressionIsSwitchedOff) {
  DevicesOfMachine machine({.seed = 7});
  Job({.type = GetParam(), .workers = 1, .servers = 1}).Run([&](KVStore& kv) {
    NDArray weight = Ramp(kv, 0);
    kv.Init("w", weight);
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.SetGradientCompression({.type = Compression::k2Bit, .threshold = 2000});
    kv.PushPull("w", Ramp(kv, 1), &weight);
    ExpectRamp(weight, 0);
    kv.SetGradientCompression({});
    kv.PushPull("w", Ramp(kv, 1), &weight);
    ExpectRamp(weight, 2);
  });
}

// The second pull lets the host's array adopt the server's memory, when the first one is still to be copied
// from there to the card.
TEST(PullsToHostAndCard, AreFollowedByPullsToTheHostAlone) {
  DevicesOfMachine machine({.seed = 8});
  std::promise<void> both_pulled;
  Job({.type = "dist_sync", .workers = 2, .servers = 1}).Run([&](KVStore& kv) {
    NDArray host({1000}, cpu(kv.rank()));
    kv.Init("w", host);
    NDArray one({1000}, cpu(kv.rank()));
    one.Fill(1);
    if (kv.rank() == 1) both_pulled.get_future().wait_for(std::chrono::minutes(1));
    kv.Push("w", one);
    if (kv.rank() == 1) return;
    NDArray card({1000}, gpu(0));
    kv.Pull({"w"}, {{host, card}});
    kv.Pull("w", &host);
    both_pulled.set_value();
    EXPECT_EQ(card.ToVector()[999], 2);
    EXPECT_EQ(host.ToVector()[999], 2);
  });
}

// Returns what `call` throws, or "".
std::string ErrorOfCall(const std::function<void()>& call) {
  try {
    call();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// When some call of CUDA fails, the servers have got a part of the round. The key fails then, since a later
// push would be summed into that round. If nothing was sent, or all, the next push is whole.
TEST(FailingLargeKeys, AreNeverSummedInPart) {
  int halfway = 0;
  const auto fail = [&](int64_t call, int64_t& calls) {
    SCOPED_TRACE(call);
    DevicesOfMachine machine;
    Job({.type = "dist_sync", .workers = 1, .servers = 1}).Run([&](KVStore& kv) {
      NDArray weight = Ramp(kv, 1);
      kv.Init("w", weight);
      kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
      const NDArray gradient = Ramp(kv, 1);
      gradient.WaitToRead();
      machine->FailCall(call, cudaErrorInvalidValue);
      const auto push = [&] {
        kv.PushPull("w", gradient, &weight);
        weight.WaitToRead();
      };
      const std::string first = ErrorOfCall(push);
      calls = std::max(calls, first.empty() ? machine->calls() : call + kStride + 1);
      EXPECT_THAT(first, AnyOf("", HasSubstr("cuda"), HasSubstr("gpu(0)")));
      while (!ErrorOfCall([&] { kv.WaitAll(); }).empty()) continue;
      const std::string second = ErrorOfCall(push);
      if (second.empty()) {
        const float scale = weight.ToVector()[1];
        EXPECT_THAT(scale, AnyOf(2, 3));
        ExpectRamp(weight, scale);
      }
      EXPECT_THAT(second, AnyOf("", HasSubstr("cuda"), HasSubstr("gpu(0)")));
      if (second.find("cannot close, its push has failed") != std::string::npos) ++halfway;
      while (!ErrorOfCall([&] { kv.WaitAll(); }).empty()) continue;
    });
  };
  // The threads' calls have no order, so that a call that matters may be missed.
  for (int64_t sweep = 0; sweep < 7 && halfway == 0; ++sweep)
    for (int64_t call = sweep, calls = sweep + 1; call < calls; call += kStride) fail(call, calls);
  EXPECT_GT(halfway, 0);
}

}  // namespace
}  // namespace sluice::testing
