// A fixture for tests that run on every type of store. Distributed stores have three workers.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "contract/weight_key.h"
#include "sluice/store_type.h"

namespace sluice::testing {

const Shape kLong = {300};  // a key of it is split into parts on every server

class OfEveryStore : public ::testing::TestWithParam<std::string> {
 protected:
  bool IsDist() const { return StoreType::Parse(GetParam()).distributed; }
  bool IsAsync() const { return StoreType::Parse(GetParam()).async; }
  int Workers() const { return IsDist() ? 3 : 1; }
  Job MakeJob(std::chrono::milliseconds timeout = std::chrono::minutes(10)) const {
    return Job(
        {.type = GetParam(), .workers = Workers(), .bigarray_bound = 100, .operation_timeout = timeout});
  }
  // Returns the key's value after all workers' pushes. No worker may set it meanwhile.
  static std::vector<float> Settled(KVStore& kv, const Key& key, const Shape& shape) {
    kv.WaitAll();
    kv.Barrier();
    NDArray out = Filled(kv, shape, 0);
    kv.PullLatest({key}, {{out}});
    std::vector<float> values = out.ToVector();
    kv.Barrier();
    return values;
  }
};

}  // namespace sluice::testing
