#include "collective/reducer.h"

#include "base/strings.h"
#include "collective/host/work.h"
#include "sluice/error.h"

namespace sluice::collective {

namespace {

void RequireFit(const Reduction& sum) {
  const NDArray& out = *sum.out;
  if (sum.values.empty()) throw Error(ErrorCode::kInvalidArgument, "Reduce: no arrays were given");
  for (const NDArray& value : sum.values) {
    if (value.SharesStorage(out))
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat("Reduce: the sum of shape ", out.shape(), " would overwrite one of the arrays"));
    if (value.shape() != out.shape() || value.dtype() != out.dtype()) {
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat("Reduce: ", Name(value.dtype()), " ", value.shape(), " on ", value.context(),
                         " does not fit ", Name(out.dtype()), " ", out.shape()));
    }
  }
}

}  // namespace

void Reducer::ReduceAll(std::span<const Reduction> sums) {
  for (const Reduction& sum : sums) {
    RequireFit(sum);
    for (const NDArray& value : sum.values) RequireContext(value);
  }
  DoReduce(sums);
}

void Reducer::BroadcastAll(std::span<const Copies> all, FunctionRef<void(size_t)> enqueued) {
  for (size_t i = 0; i < all.size(); ++i) {
    const NDArray& value = *all[i].value;
    for (NDArray out : all[i].outs) {
      if (out.SharesStorage(value)) continue;
      IsAlikeOnHost(value, out) ? EnqueueCopy(host_work_, value, &out) : value.CopyTo(&out);
    }
    enqueued(i);
  }
}

}  // namespace sluice::collective
