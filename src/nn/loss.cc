#include "sluice/loss.h"

#include "autograd/ops.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::nn {
namespace {

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
  return Reduce(ops::SoftmaxCrossEntropy(prediction, label), reduction_);
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
