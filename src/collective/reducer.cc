#include "collective/reducer.h"

#include "base/strings.h"
#include "collective/host/work.h"
#include "sluice/error.h"

namespace sluice::collective {

void Reducer::Reduce(const std::vector<NDArray>& values, NDArray* out, uint32_t exponent) {
  if (values.empty()) throw Error(ErrorCode::kInvalidArgument, "Reduce: no arrays were given");
  for (const NDArray& value : values) {
    if (value.SharesStorage(*out))
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat("Reduce: the sum of shape ", out->shape(), " would overwrite one of the arrays"));
    if (value.shape() != out->shape() || value.dtype() != out->dtype()) {
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat("Reduce: ", Name(value.dtype()), " ", value.shape(), " on ", value.context(),
                         " does not fit ", Name(out->dtype()), " ", out->shape()));
    }
  }
  DoReduce(values, out, exponent);
}

void Reducer::Broadcast(const NDArray& value, const std::vector<NDArray>& outs) {
  for (NDArray out : outs) {
    if (out.SharesStorage(value)) continue;
    IsAlikeOnHost(value, out) ? EnqueueCopy(host_work_, value, &out) : value.CopyTo(&out);
  }
}

}  // namespace sluice::collective
