// Arrays that a worker has pulled into must behave like its own, even if they have adopted memory that a
// server leases to the worker: their values must not change with later rounds, and the worker may push them,
// write to them, and keep them after it has left the job.
#include <gmock/gmock.h>

#include <algorithm>
#include <future>

#include "base/strings.h"
#include "contract/weight_key.h"
#include "sluice/store_type.h"

namespace sluice::testing {
namespace {

// The first key fits into a message, the second one is one frame, the third one is many frames from several
// servers.
constexpr int64_t kSizes[] = {6, 5'000, 300'000};

class PulledArrays : public ::testing::TestWithParam<std::string> {
 protected:
  bool IsDist() const { return StoreType::Parse(GetParam()).distributed; }
  int workers() const { return IsDist() ? 2 : 1; }
  Job MakeJob() const { return Job({.type = GetParam(), .workers = workers()}); }

  static Key KeyOf(int64_t size) { return StrCat("of ", size); }
  // Initialises the keys with zeros, to which pushes are added.
  static void Init(KVStore& kv) {
    for (const int64_t size : kSizes) kv.Init(KeyOf(size), Filled(kv, {size}, 0));
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
  }
  // All workers push ones, so each round adds workers().
  static void PushOnes(KVStore& kv) {
    for (const int64_t size : kSizes) kv.Push(KeyOf(size), Filled(kv, {size}, 1));
    kv.WaitAll();
    kv.Barrier();
  }
  // Expects that all elements are `value`; gmock's Each is slow for so many elements.
  static void ExpectAll(const NDArray& array, float value) {
    const std::vector<float> values = array.ToVector();
    const auto other = std::ranges::find_if(values, [&](float is) { return is != value; });
    EXPECT_EQ(other, values.end()) << "element " << other - values.begin() << " of " << values.size()
                                   << " is " << *other << " in place of " << value;
  }
  static void PullInto(KVStore& kv, const NDArray& out, int64_t size) {
    kv.PullLatest({KeyOf(size)}, {{out}});
  }
};

INSTANTIATE_TEST_SUITE_P(Types, PulledArrays,
                         ::testing::Values("local", "dist_sync", "dist_device_sync", "dist_async"),
                         [](const auto& info) { return info.param; });

TEST_P(PulledArrays, AreWrittenToByTheirWorkerAlone) {
  MakeJob().Run([&](KVStore& kv) {
    Init(kv);
    std::map<int64_t, NDArray> mine;
    for (const int64_t size : kSizes) mine[size] = Filled(kv, {size}, 0);
    for (int round = 1; round <= 5; ++round) {
      PushOnes(kv);
      for (const int64_t size : kSizes) {
        NDArray& array = mine[size];
        PullInto(kv, array, size);
        const NDArray before = array * 1;
        array += array;
        array.SliceRows(0, 1).Fill(-1);
        kv.Barrier();
        const NDArray fresh = Filled(kv, {size}, 0);
        PullInto(kv, fresh, size);
        const auto value = static_cast<float>(round * workers());
        ExpectAll(fresh, value);
        ExpectAll(before, value);
        ExpectAll(array.SliceRows(1, size), 2 * value);
        EXPECT_EQ(array.ToVector().front(), -1);
      }
      kv.Barrier();
    }
  });
}

TEST_P(PulledArrays, KeepTheValuesOfTheirTime) {
  std::map<int64_t, std::vector<std::vector<NDArray>>> pulled;  // by size, worker, round
  for (const int64_t size : kSizes) pulled[size].resize(static_cast<size_t>(workers()));
  constexpr int kRounds = 7;
  MakeJob().Run([&](KVStore& kv) {
    Init(kv);
    for (int round = 1; round <= kRounds; ++round) {
      PushOnes(kv);
      for (const int64_t size : kSizes) {
        auto& arrays = pulled.at(size)[static_cast<size_t>(kv.rank())];
        PullInto(kv, arrays.emplace_back(Filled(kv, {size}, 0)), size);
      }
      kv.WaitAll();
      kv.Barrier();
    }
  });
  // The arrays outlive the job and its servers.
  for (const auto& [size, by_worker] : pulled) {
    for (const std::vector<NDArray>& arrays : by_worker) {
      for (int round = 1; round <= kRounds; ++round)
        ExpectAll(arrays[static_cast<size_t>(round - 1)], static_cast<float>(round * workers()));
    }
  }
}

TEST_P(PulledArrays, ArePushed) {
  MakeJob().Run([&](KVStore& kv) {
    Init(kv);
    int expected = 0;
    for (int round = 0; round < 4; ++round) {
      PushOnes(kv);
      expected += workers();
      std::vector<NDArray> arrays;
      for (const int64_t size : kSizes) PullInto(kv, arrays.emplace_back(Filled(kv, {size}, 0)), size);
      kv.WaitAll();
      kv.Barrier();
      for (const NDArray& array : arrays) {
        kv.Push(KeyOf(array.size()), array);
        PullInto(kv, array, array.size());  // is written only after the push has read the array
      }
      kv.WaitAll();
      kv.Barrier();
      expected += workers() * expected;
      for (const int64_t size : kSizes) {
        const NDArray array = Filled(kv, {size}, 0);
        PullInto(kv, array, size);
        ExpectAll(array, static_cast<float>(expected));
      }
      kv.Barrier();
    }
  });
}

// One call pulls a key into an array that it pushes under the next key.
TEST_P(PulledArrays, AreReadByTheCallThatPullsThem) {
  MakeJob().Run([&](KVStore& kv) {
    for (const int64_t size : kSizes) {
      const Key one = StrCat("one of ", size), other = StrCat("other of ", size);
      kv.Init({one, other}, {Filled(kv, {size}, 0), Filled(kv, {size}, 0)});
    }
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
    for (const int64_t size : kSizes) {
      const Key one = StrCat("one of ", size), other = StrCat("other of ", size);
      const NDArray pulled = Filled(kv, {size}, 0), out = Filled(kv, {size}, 0), copy = Filled(kv, {size}, 0);
      for (int round = 1; round <= 3; ++round) {
        kv.PushPull({one, other}, {{Filled(kv, {size}, 1)}, {pulled}}, {{pulled}, {out}});
        kv.PullLatest({one, other}, {{pulled, copy}, {out}});
        kv.WaitAll();
        kv.Barrier();
      }
      kv.PullLatest({one, other}, {{pulled, copy}, {out}});
      ExpectAll(pulled, static_cast<float>(3 * workers()));
      ExpectAll(copy, static_cast<float>(3 * workers()));
      if (IsDist() && GetParam() != "dist_async")
        ExpectAll(out, static_cast<float>(6 * workers() * workers()));
      kv.Barrier();
    }
  });
}

// A worker leaves, and keeps its arrays while the other one continues and the servers update their weights.
TEST_P(PulledArrays, StayWhenTheirWorkerHasLeft) {
  Job job = MakeJob();
  std::promise<void> left, pushed;
  job.RunShared([&](std::shared_ptr<KVStore> kv) {
    Init(*kv);
    std::map<int64_t, NDArray> mine;
    PushOnes(*kv);
    for (const int64_t size : kSizes) mine[size] = Filled(*kv, {size}, 0);
    for (int i = 0; i < 2; ++i)  // the second pull is issued right behind the first
      for (const int64_t size : kSizes) PullInto(*kv, mine[size], size);
    kv->WaitAll();
    kv->Barrier();
    if (workers() > 1 && kv->rank() == 0) {
      job.End(0, std::move(kv));
      left.set_value();
      pushed.get_future().wait_for(20s);
    } else if (workers() > 1) {
      mine.clear();  // only worker 0's arrays still hold leases
      left.get_future().wait_for(20s);
      for (int i = 0; i < 20; ++i) {
        if (kv->type() == "dist_async")
          for (const int64_t size : kSizes) kv->Push(KeyOf(size), Filled(*kv, {size}, 1));
        kv->WaitAll();
      }
      pushed.set_value();
    }
    for (const auto& [size, array] : mine) ExpectAll(array, static_cast<float>(workers()));
  });
}

TEST_P(PulledArrays, AndPartsOfThemMayBeOfOneCall) {
  MakeJob().Run([&](KVStore& kv) {
    constexpr int64_t kRow = 5'000, kRows = 4;
    const NDArray whole = Filled(kv, {kRows, kRow}, 0), row = whole.SliceRows(2, 3);
    kv.Init({"whole", "row"}, {Filled(kv, {kRows, kRow}, 5), Filled(kv, {1, kRow}, 9)});
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
    for (int round = 0; round < 3; ++round) {
      kv.PullLatest({"whole", "row"}, {{whole}, {row}});
      ExpectAll(row, 9);
      ExpectAll(whole.SliceRows(0, 2), 5);
      kv.PullLatest({"row", "whole"}, {{row}, {whole}});
      ExpectAll(whole, 5);
      kv.PushPull({"whole", "row"}, {{Filled(kv, {kRows, kRow}, 0)}, {Filled(kv, {1, kRow}, 0)}},
                  {{whole}, {row}});
      ExpectAll(row, 9);
      ExpectAll(whole.SliceRows(0, 2), 5);
      kv.PullLatest({"whole", "whole"}, {{whole}, {whole}});
      ExpectAll(whole, 5);
    }
    kv.Barrier();
  });
}

TEST_P(PulledArrays, MayBePartsOfOthers) {
  MakeJob().Run([&](KVStore& kv) {
    Init(kv);
    for (const int64_t size : kSizes) {
      NDArray whole = Filled(kv, {2, size}, 7);
      NDArray all = whole.Reshape({2 * size});
      for (int round = 0; round < 3; ++round) {
        const NDArray second = all.SliceRows(size, 2 * size);
        PullInto(kv, second, size);
        ExpectAll(second, 0);
        ExpectAll(all.SliceRows(0, size), 7);
        all.SliceRows(size, 2 * size).Fill(3);
      }
    }
    kv.Barrier();
  });
}

}  // namespace
}  // namespace sluice::testing
