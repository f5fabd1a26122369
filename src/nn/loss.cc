#include "sluice/loss.h"

#include "autograd/ops.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/access.h"

namespace sluice::nn {
namespace {

template <typename T>
void Widen(Bytes labels, float* out, int64_t n) {
  const auto* values = reinterpret_cast<const T*>(labels.data());
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(values[i]);
}

// Class numbers as the kernels take them: float32, which is exact below 2^24 classes.
NDArray FloatLabels(const NDArray& label) {
  const auto widen = label.dtype() == DType::kInt32   ? Widen<int32_t>
                     : label.dtype() == DType::kInt64 ? Widen<int64_t>
                     : label.dtype() == DType::kUInt8 ? Widen<uint8_t>
                                                      : nullptr;
  if (widen == nullptr) return label;
  NDArray out = NDArray::Empty(label.shape(), label.context());
  std::vector<Event> after = PendingUses(out);
  after.push_back(ReadyToRead(label));
  const Event done = EnqueueOn(label.context(), "labels to float32", after, [label, out, widen]() mutable {
    widen(HostBytes(label), reinterpret_cast<float*>(MutableHostBytes(out).data()), label.size());
  });
  AddReader(label, done);
  SetWriter(out, done);
  return out;
}

NDArray Reduce(const NDArray& losses, Reduction reduction) {
  return reduction == Reduction::kMean ? ops::Mean(losses) : losses;
}

}  // namespace

NDArray SoftmaxCrossEntropyLoss::operator()(const NDArray& prediction, const NDArray& label) const {
  const Shape& scores = prediction.shape();
  if (scores.ndim() != 2 || label.shape().ndim() == 0 || label.shape()[0] != scores[0] ||
      label.size() != scores[0]) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("SoftmaxCrossEntropyLoss: labels ", label.shape(), " and scores ", scores,
                       " do not fit; expected [batch] class numbers and [batch, classes]"));
  }
  return Reduce(ops::SoftmaxCrossEntropy(prediction, FloatLabels(label)), reduction_);
}

NDArray L2Loss::operator()(const NDArray& prediction, const NDArray& label) const {
  if (prediction.shape() != label.shape() || label.shape().ndim() == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("L2Loss: labels ", label.shape(), " and predictions ", prediction.shape(),
                       " must have the same shape [batch, ...]"));
  }
  return Reduce(ops::L2(prediction, label), reduction_);
}

}  // namespace sluice::nn
