#include "data/buckets.h"

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice {

std::vector<int64_t> BucketsOf(const Dataset& dataset) {
  std::vector<int64_t> buckets;
  bool without = false;  // whether a sample has none
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const std::optional<int64_t> bucket = dataset.Bucket(i);
    if (!bucket && buckets.empty()) {
      without = true;
      continue;
    }
    if (!bucket || without || *bucket < 1 || *bucket > dataset.sample_shape()[0]) {
      throw Error(
          ErrorCode::kInvalidArgument,
          StrCat("DataLoader: sample ", i, " has ", bucket ? StrCat("the bucket ", *bucket) : "no bucket",
                 without ? ", and those before have none" : "", "; all samples of ", dataset.sample_shape(),
                 " have buckets from 1 to ", dataset.sample_shape()[0], ", or none has one"));
    }
    buckets.push_back(*bucket);
  }
  return buckets;
}

Shape CutTo(const Shape& shape, const Shape& sample, int64_t steps) {
  return steps == 0 || shape.ndim() == 0 || shape[0] != sample[0] ? shape : shape.WithExtent(0, steps);
}

}  // namespace sluice
