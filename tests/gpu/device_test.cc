// The device of a card on a test machine: streams that hold work back, memory that is used again, copies
// beside computation, and what becomes of errors.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "gpu/devices_of_machine.h"
#include "sluice/ndarray.h"
#include "sluice/ops.h"
#include "tensor/cuda/kernels.h"
#include "tensor/storage.h"
#include "unit/expect_error.h"

namespace sluice::cuda {
namespace {

using ops::SoftmaxCrossEntropy;
using ops::Sum;
using ::testing::HasSubstr;

std::vector<float> Numbers(size_t n, float first) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), first);
  return values;
}

// Arrays are dropped while the card still works on them, so that later ones get their memory.
void ExpectRightSums(int rounds, Context card) {
  constexpr size_t kCount = 3000;
  std::vector<NDArray> results;
  for (int i = 0; i < rounds; ++i) {
    const NDArray x = NDArray::From(Numbers(kCount, static_cast<float>(i)), {kCount}, card);
    const NDArray y = x + x, z = y * x;
    results.push_back((z - y).AsInContext(cpu(0)));
  }
  for (int i = 0; i < rounds; ++i) {
    const std::vector<float> actual = results[static_cast<size_t>(i)].ToVector<float>();
    for (size_t j = 0; j < kCount; ++j) {
      const float x = static_cast<float>(i) + static_cast<float>(j);
      ASSERT_EQ(actual[j], 2 * x * x - 2 * x) << "array " << i << ", element " << j;
    }
  }
}

TEST(Card, ComputesInOrderAndGivesMemoryToLaterArrays) {
  for (const uint64_t seed : {0, 1, 2, 3, 4, 5}) {
    SCOPED_TRACE(seed);
    DevicesOfMachine machine({.seed = seed});
    ExpectRightSums(20, gpu(0));
  }
}

// Copies from the host run on a stream of their own, beside kernels that still read the memory's last array.
TEST(Card, ACopyWaitsForWhatStillUsesTheMemory) {
  for (const uint64_t seed : {1, 2, 3, 4}) {
    DevicesOfMachine machine({.seed = seed});
    std::vector<NDArray> sums;
    for (int i = 1; i <= 30; ++i) {
      NDArray from({1000}, cpu(0));
      from.Fill(i);
      NDArray to = NDArray::Empty({1000}, gpu(0));
      from.CopyTo(&to);
      sums.push_back(Sum(to));
    }
    for (int i = 1; i <= 30; ++i)
      EXPECT_EQ(sums[static_cast<size_t>(i - 1)].ToScalar(), 1000.0f * static_cast<float>(i));
  }
}

TEST(Card, CopiesBetweenCardsWithAndWithoutPeerAccess) {
  for (const bool peers : {true, false}) {
    DevicesOfMachine machine({.cards = 3, .seed = 9, .peers = peers});
    const NDArray x = NDArray::From(Numbers(500, 1), {500}, gpu(0));
    const NDArray on_other = (x + x).AsInContext(gpu(1));
    const NDArray back = (on_other * 3).AsInContext(gpu(0));
    EXPECT_EQ((back - x).ToVector<float>()[499], 5 * 500.0f);
    EXPECT_EQ(machine->peers(), peers ? 2 : 0) << "of the two cards that are used, and both ways";
  }
}

TEST(Card, ConvertsWhereTheElementsLie) {
  DevicesOfMachine machine;
  const NDArray halves = NDArray::Empty({3}, gpu(0), DType::kFloat16);
  NDArray x = halves;
  NDArray::From({1.5f, -2.0f, 1e6f}, {3}).CopyTo(&x);
  NDArray back = NDArray::Empty({3}, cpu(0));
  x.CopyTo(&back);
  EXPECT_EQ(back.ToVector<float>(), (std::vector<float>{1.5f, -2.0f, HUGE_VALF}));
}

// --- Order with the host ---

// What is issued before an operation that waits for the host completes meanwhile: the host may wait for it.
TEST(CardStream, WhatComesBeforeAWaitForTheHostCompletesFirst) {
  DevicesOfMachine machine;
  Stream& stream = Devices::Default()->Get(gpu(0))->stream();
  const Event host = Event::Make("the host");
  std::vector<Event> before;
  for (int i = 0; i < 3; ++i) before.push_back(stream.Enqueue("before", {}, [] {}));
  bool ran = false;
  const Event behind = stream.Enqueue("behind", std::array{host}, [&] { ran = true; });
  for (const Event& event : before) event.Wait(1min);
  EXPECT_FALSE(behind.Done());
  host.Complete();
  behind.Wait(1min);
  EXPECT_TRUE(ran);
}

TEST(CardStream, AWaitOfOneStreamHoldsNoOtherUp) {
  DevicesOfMachine machine;
  const std::shared_ptr<Device> card = Devices::Default()->Get(gpu(0));
  const Event host = Event::Make("the host");
  const Event copy = card->from_host().stream.Enqueue("copy", std::array{host}, [] {});
  card->stream().Enqueue("kernel", {}, [] {}).Wait(1min);
  EXPECT_FALSE(copy.Done());
  const Event after = card->stream().Enqueue("behind the copy", std::array{copy}, [] {});
  host.Complete();
  after.Wait(1min);
  EXPECT_TRUE(copy.Done());
}

// --- Errors of issuing work ---

TEST(CardStream, AnErrorReachesWhatDependsOnItAndNothingElse) {
  DevicesOfMachine machine({.seed = 3});
  const std::shared_ptr<Device> card = Devices::Default()->Get(gpu(0));
  Stream& stream = card->stream();
  const Event failed = stream.Enqueue("dense", {}, [] { throw Error(ErrorCode::kDataLoss, "it broke"); });
  bool ran = false, ran_on_other = false, ran_apart = false;
  const Event dependent = stream.Enqueue("relu", std::array{failed}, [&] { ran = true; });
  const Event on_other =
      card->to_host().stream.Enqueue("copy", std::array{dependent}, [&] { ran_on_other = true; });
  const Event apart = stream.Enqueue("apart", std::array{failed.Quietly()}, [&] { ran_apart = true; });
  for (const Event& event : {failed, dependent, on_other})
    EXPECT_EQ(ErrorOf(ErrorCode::kDataLoss, [&] { event.Wait(1min); }), "operation dense: it broke");
  apart.Wait(1min);
  EXPECT_FALSE(ran);
  EXPECT_FALSE(ran_on_other);
  EXPECT_TRUE(ran_apart);
}

TEST(CardStream, AnErrorOfTheHostReachesTheCard) {
  DevicesOfMachine machine;
  const Event host = Event::Make("a pull");
  bool ran = false;
  Stream& stream = Devices::Default()->Get(gpu(0))->from_host().stream;
  const Event copy = stream.Enqueue("copy", std::array{host}, [&] { ran = true; });
  host.Complete(std::make_exception_ptr(Error(ErrorCode::kUnavailable, "server 1 is gone")));
  EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { copy.Wait(1min); }), HasSubstr("server 1 is gone"));
  EXPECT_FALSE(ran);
}

// --- What kernels find ---

NDArray LossOf(const std::vector<float>& labels) {
  const auto n = static_cast<int64_t>(labels.size());
  return SoftmaxCrossEntropy(NDArray({n, 3}, gpu(0)), NDArray::From(labels, {n}, gpu(0)));
}

TEST(CardInputs, ABadLabelIsTheErrorOfItsOperationAndOfWhatDependsOnIt) {
  for (const uint64_t seed : {0, 1, 2, 3}) {
    DevicesOfMachine machine({.seed = seed});
    const NDArray good = LossOf({0, 2}), bad = LossOf({1, 7}), dependent = bad + bad;
    const NDArray on_host = dependent.AsInContext(cpu(0));
    for (const NDArray& array : {bad, dependent, on_host}) {
      const std::string message = ErrorOf(ErrorCode::kInvalidArgument, [&] { array.ToVector<float>(); });
      EXPECT_THAT(message, HasSubstr("label 7 of row 1 is no class of [0, 3)"));
      EXPECT_THAT(message, HasSubstr("operation "));
    }
    EXPECT_NEAR(good.ToVector<float>()[0], std::log(3.0f), 1e-6);
    EXPECT_NEAR(LossOf({2, 2}).ToVector<float>()[1], std::log(3.0f), 1e-6);
    EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [] { LossOf({-1}).WaitToRead(); }),
                HasSubstr("label -1"));
  }
}

// Only the first of several bad inputs is kept on the card until the host has seen it, so none of those
// behind it may pass for good.
TEST(CardInputs, NoBadInputBehindAnotherPassesForGood) {
  for (const uint64_t seed : {0, 1, 2, 3, 4, 5, 6, 7}) {
    DevicesOfMachine machine({.seed = seed});
    std::vector<NDArray> losses;
    for (int i = 0; i < 40; ++i) losses.push_back(LossOf({i % 3 == 0 ? 5.0f : 1.0f}));
    int good = 0;
    for (int i = 0; i < 40; ++i) {
      const NDArray& loss = losses[static_cast<size_t>(i)];
      if (i % 3 == 0) {
        EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { loss.WaitToRead(); }), HasSubstr("label 5"));
      } else {
        try {
          loss.WaitToRead();
          EXPECT_NEAR(loss.ToScalar(), std::log(3.0f), 1e-6);
          ++good;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
        }
      }
    }
    EXPECT_NO_THROW(LossOf({1}).WaitToRead()) << good << " were good";
  }
}

TEST(CardInputs, LastingStateStaysAsItWasBehindABadInput) {
  for (const uint64_t seed : {0, 1, 2}) {
    DevicesOfMachine machine({.seed = seed});
    NDArray running_mean({4}, gpu(0)), running_variance({4}, gpu(0));
    const NDArray x = NDArray::From(Numbers(40, 1), {10, 4}, gpu(0));
    NDArray out = NDArray::Empty({10, 4}, gpu(0)), mean = NDArray::Empty({4}, gpu(0)),
            inverse = NDArray::Empty({4}, gpu(0));
    const auto normalize = [&] {
      return internal::Launch(
          "batch_norm", gpu(0), {x}, {running_mean, running_variance, out, mean, inverse},
          [px = internal::DataOf(x), pm = internal::DataOf(running_mean),
           pv = internal::DataOf(running_variance), po = internal::DataOf(out), p1 = internal::DataOf(mean),
           p2 = internal::DataOf(inverse)](Kernels& k) {
            k.BatchNorm({.shape = {.rows = 10, .channels = 4, .momentum = 0.5f, .training = true},
                         .x = px,
                         .running_mean = pm,
                         .running_variance = pv,
                         .out = po,
                         .mean = p1,
                         .inverse = p2});
          });
    };
    const NDArray bad = LossOf({9});
    const Event skipped = normalize();
    EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { bad.WaitToRead(); }), HasSubstr("label 9"));
    bool failed = false;
    try {
      skipped.Wait(1min);
    } catch (const Error&) {
      failed = true;
    }
    // Either it says that it was not done, or it was issued late enough to be done.
    const float expected = failed ? 0.0f : 0.5f * 19;
    NDArray copy = NDArray::Empty({4}, cpu(0));
    std::vector<float> values(4);
    const std::shared_ptr<Device> card = Devices::Default()->Get(gpu(0));
    card->stream()
        .Enqueue("read", {},
                 [&] {
                   card->kernels().Copy({.from = internal::DataOf(running_mean).get(),
                                         .to = values.data(),
                                         .bytes = sizeof(float) * 4});
                 })
        .Wait(1min);
    EXPECT_EQ(values[0], expected);
    EXPECT_NO_THROW(normalize().Wait(1min));
  }
}

// --- Cards that fail ---

TEST(CardLost, EverythingBehindAnIllegalAddressSaysSoAndEnds) {
  for (const uint64_t seed : {0, 5}) {
    DevicesOfMachine machine({.seed = seed});
    const NDArray x = NDArray::From(Numbers(100, 0), {100}, gpu(0));
    x.WaitToRead();
    machine->FailGrid(1);
    const NDArray first = x + x, lost = first * x, behind = lost + x;
    const std::string message = ErrorOf(ErrorCode::kUnavailable, [&] { behind.ToVector<float>(); });
    EXPECT_THAT(message, HasSubstr("gpu(0)"));
    EXPECT_THAT(message, HasSubstr("illegal"));
    ErrorOf(ErrorCode::kUnavailable, [&] { lost.WaitToRead(); });
    ErrorOf(ErrorCode::kUnavailable, [&] { (x + x).WaitToRead(); });
    ErrorOf(ErrorCode::kUnavailable, [&] { Devices::Default()->Get(gpu(0))->stream().Drain(1min); });
  }
}

// Computes on two cards with copies both ways and returns the result.
float Try() {
  const NDArray x = NDArray::From(Numbers(64, 1), {8, 8}, gpu(0));
  const NDArray y = (x + x).AsInContext(gpu(1));
  const NDArray loss = SoftmaxCrossEntropy(y, NDArray::From(std::vector<float>(8, 3), {8}, gpu(1)));
  return Sum(loss).AsInContext(cpu(0)).ToScalar();
}

TEST(CardLost, WhicheverCallFailsItIsAnErrorOrDoesNotMatterAndNothingHangsOrLeaks) {
  int64_t calls = 0;
  float expected = 0;
  {
    DevicesOfMachine machine({.cards = 2});
    expected = Try();
    calls = machine->calls();
  }
  ASSERT_GT(calls, 40);
  for (const cudaError_t code : {cudaErrorMemoryAllocation, cudaErrorLaunchFailure}) {
    int failures = 0;
    for (int64_t call = 0; call < calls; ++call) {
      SCOPED_TRACE(call);
      DevicesOfMachine machine({.cards = 2});
      machine->FailCall(call, code);
      try {
        EXPECT_EQ(Try(), expected);
      } catch (const Error& error) {
        ++failures;
        EXPECT_TRUE(error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kResourceExhausted)
            << error.what();
      }
    }
    EXPECT_GT(failures, calls / 2);
  }
}

// --- Memory ---

// Without memory for a marker the stream is waited for; nothing is lost, and a bad label is found.
TEST(CardMemory, WithoutMemoryForAMarkerOperationsEndAsWell) {
  DevicesOfMachine machine({.seed = 2});
  const NDArray x = NDArray::From(Numbers(32, 0), {8, 4}, gpu(0));
  const NDArray good = NDArray::From(std::vector<float>(8, 3), {8}, gpu(0));
  const NDArray bad = NDArray::From(std::vector<float>(8, 4), {8}, gpu(0));
  x.WaitToRead();
  machine->SetOutOfMemory(true);
  const NDArray loss = SoftmaxCrossEntropy(x, bad);
  ErrorOf(ErrorCode::kInvalidArgument, [&] { loss.WaitToRead(); });
  SoftmaxCrossEntropy(x, good).WaitToRead();
  (x + x).WaitToRead();
  machine->SetOutOfMemory(false);
  EXPECT_EQ((x + x).ToVector<float>()[31], 62);
}

TEST(Card, OpensNoOtherCardAndLeavesTheThreadsChoice) {
  DevicesOfMachine machine({.cards = 4});
  std::thread([&] { ExpectRightSums(3, gpu(2)); }).join();
  EXPECT_FALSE(machine->IsOpen(0));
  cudaSetDevice(1);
  ExpectRightSums(3, gpu(3));
  int current = -1;
  cudaGetDevice(&current);
  EXPECT_EQ(current, 1);
  Devices::SetDefault(nullptr);
  EXPECT_FALSE(machine->IsOpen(0));
  cudaGetDevice(&current);
  EXPECT_EQ(current, 1);
}

TEST(CardMemory, ACardThatIsFullIsNamedWithWhatItHasAndWorksOnOnceThereIsRoom) {
  DevicesOfMachine machine({.memory = size_t{100} << 20});
  NDArray large = NDArray::Empty({20 << 20}, gpu(0));  // 80 MiB
  const std::string message =
      ErrorOf(ErrorCode::kResourceExhausted, [] { NDArray::Empty({10 << 20}, gpu(0)); });
  EXPECT_THAT(message, HasSubstr("gpu(0) has no memory for an array of 41943040 bytes: "));
  EXPECT_THAT(message, HasSubstr("of 104857600 bytes are free"));
  EXPECT_THAT(message, HasSubstr("the arrays of this process take 83886080 of the "));
  large = NDArray();
  // What was kept of the large array is given back for arrays of another size.
  for (int64_t mebi = 1; mebi <= 20; ++mebi) {
    NDArray x = NDArray::Empty({mebi << 20}, gpu(0));
    x.Fill(2);
    EXPECT_EQ(x.ToVector<float>().back(), 2);
  }
}

TEST(CardMemory, AKernelsWorkspaceGetsWhatIsKeptForArrays) {
  for (const uint64_t seed : {0, 3}) {
    DevicesOfMachine machine({.memory = size_t{100} << 20, .seed = seed});
    {
      NDArray large = NDArray::Empty({20 << 20}, gpu(0));  // 80 MiB, which are kept
      large.Fill(1);
    }
    const std::shared_ptr<Device> card = Devices::Default()->Get(gpu(0));
    auto& kernels = dynamic_cast<CudaKernels&>(card->kernels());
    const auto take = [&](size_t bytes) {
      card->stream().Enqueue("take", {}, [&] { kernels.workspace().Take<std::byte>(bytes); }).Wait(1min);
    };
    take(size_t{60} << 20);
    ErrorOf(ErrorCode::kResourceExhausted, [&] { take(size_t{120} << 20); });
    take(size_t{70} << 20);
  }
}

TEST(CardMemory, SmallArraysShareASlab) {
  DevicesOfMachine machine;
  std::vector<NDArray> arrays;
  for (int i = 0; i < 1000; ++i) arrays.push_back(NDArray({100}, gpu(0)));
  WaitAll();
  const int64_t calls = machine->calls();
  for (int i = 0; i < 1000; ++i) arrays.push_back(NDArray::Empty({100}, gpu(0)));
  EXPECT_EQ(machine->calls(), calls);
}

}  // namespace
}  // namespace sluice::cuda
