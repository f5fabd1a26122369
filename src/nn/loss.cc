// The losses of sluice/loss.h, built from operations.
//
// A loss checks shapes and types so that errors name it, brings labels into the form that the
// operations take (float32, the prediction's shape), and computes one value per sample;
// Loss::operator() applies sample weights and the reduction. Losses are immutable, may be called from
// any thread, and are recorded on that thread's tape.
#include "sluice/loss.h"

#include <cmath>

#include "autograd/ops.h"
#include "nn/require.h"
#include "tensor/kernels.h"
#include "tensor/storage.h"

namespace sluice::nn {
namespace {

// Returns class numbers as float32, which the kernels take; this is exact below 2^24 classes. Labels of other
// types than integers are returned as they are.
NDArray FloatLabels(const NDArray& label) {
  if (IsFloating(label.dtype())) return label;
  NDArray out = NDArray::Empty(label.shape(), label.context());
  internal::Launch(
      "labels to float32", label.context(), {label}, {out},
      [type = label.dtype(), from = internal::DataOf<std::byte>(label), to = internal::DataOf<std::byte>(out),
       n = label.size()](Kernels& k) {
        k.Convert({.from_type = type, .from = from, .to_type = DType::kFloat32, .to = to, .n = n});
      });
  return out;
}

// Returns the shape without its axes of extent 1; the first axis, the batch, stays in any case.
Shape WithoutUnitAxes(Shape shape) {
  for (size_t axis = shape.ndim(); axis > 1; --axis) {
    if (shape[axis - 1] == 1) shape = shape.WithoutAxis(axis - 1);
  }
  return shape;
}

void RequireFloat32(std::string_view loss, const char* what, const NDArray& array) {
  if (array.dtype() == DType::kFloat32) return;
  ThrowInvalid(
      StrCat(loss, ": ", what, " ", array.shape(), " are ", Name(array.dtype()), "; expected float32"));
}

// Returns `label` in the prediction's shape. Throws Error(kInvalidArgument) when they differ in more
// than axes of extent 1, or are not float32.
NDArray Alike(std::string_view loss, const NDArray& prediction, const NDArray& label) {
  RequireFloat32(loss, "predictions", prediction);
  RequireFloat32(loss, "labels", label);
  if (prediction.shape() == label.shape() && label.shape().ndim() > 0) return label;
  if (prediction.shape().ndim() == 0 || label.shape().ndim() == 0 ||
      WithoutUnitAxes(prediction.shape()) != WithoutUnitAxes(label.shape())) {
    ThrowInvalid(StrCat(loss, ": labels ", label.shape(), " and predictions ", prediction.shape(),
                        " must have the same shape [batch, ...]"));
  }
  return ops::Reshape(label, prediction.shape());
}

}  // namespace

NDArray Loss::operator()(const NDArray& prediction, const NDArray& label,
                         const NDArray& sample_weight) const {
  internal::RequireArray(name(), "the prediction", prediction);
  internal::RequireArray(name(), "the label", label);
  NDArray losses = PerSample(prediction, label);
  if (sample_weight.valid()) {
    RequireFloat32(name(), "weights", sample_weight);
    if (sample_weight.shape().ndim() == 0 || WithoutUnitAxes(sample_weight.shape()) != losses.shape()) {
      ThrowInvalid(StrCat(name(), ": the weights ", sample_weight.shape(), " of samples must be of shape ",
                          losses.shape()));
    }
    losses = losses * ops::Reshape(sample_weight, losses.shape());
  }
  return reduction_ == Reduction::kMean ? ops::Mean(losses) : losses;
}

SoftmaxCrossEntropyLoss::SoftmaxCrossEntropyLoss(const Options& options)
    : Loss(options.reduction),
      label_smoothing_(options.label_smoothing),
      ignored_label_(options.ignored_label),
      sums_steps_(options.sums_steps) {
  if (!(label_smoothing_ >= 0 && label_smoothing_ <= 1))
    ThrowInvalid(
        StrCat("SoftmaxCrossEntropyLoss: label_smoothing is ", label_smoothing_, "; it must be from 0 to 1"));
}

namespace {

// Returns scores [batch, ..., classes] as rows of classes, [rows, classes].
NDArray RowsOfClasses(const NDArray& scores) {
  const Shape& shape = scores.shape();
  if (shape.ndim() == 2) return scores;
  const int64_t classes = shape[shape.ndim() - 1];
  return ops::Reshape(scores, {classes == 0 ? 0 : scores.size() / classes, classes});
}

// Returns the sum over each sample's `each` losses, or the mean, [batch].
NDArray OfEachSample(const NDArray& losses, int64_t batch, int64_t each, bool sums) {
  if (each == 1) return losses;
  const NDArray sum = ops::SumOfRows(ops::Reshape(losses, {batch, each}));
  return sums ? sum : sum * (1.0f / static_cast<float>(each));
}

}  // namespace

NDArray SoftmaxCrossEntropyLoss::PerSample(const NDArray& prediction, const NDArray& label) const {
  const Shape &scores = prediction.shape(), &labels = label.shape();
  if (scores.ndim() < 2) {
    ThrowInvalid(StrCat("SoftmaxCrossEntropyLoss: scores ", scores,
                        "; expected [batch, classes] or [batch, ..., classes]"));
  }
  const size_t last = scores.ndim() - 1;
  const int64_t classes = scores[last], batch = scores[0];
  int64_t each = 1;  // losses per sample
  for (size_t axis = 1; axis < last; ++axis) each *= scores[axis];
  if (each == 0) ThrowInvalid(StrCat("SoftmaxCrossEntropyLoss: samples of ", scores, " have no scores"));
  if (classes > 1 && labels == scores) {
    if (label.dtype() != DType::kFloat32) {
      ThrowInvalid(
          StrCat("SoftmaxCrossEntropyLoss: labels ", labels, " are ", Name(label.dtype()),
                 "; expected float32 probabilities of this shape, or class numbers of any type, without "
                 "the last axis"));
    }
    const NDArray q = label_smoothing_ == 0
                          ? label
                          : label * (1 - label_smoothing_) + label_smoothing_ / static_cast<float>(classes);
    if (ignored_label_) {
      ThrowInvalid(StrCat("SoftmaxCrossEntropyLoss: labels ", labels,
                          " are probabilities, which have no class ", *ignored_label_,
                          " that could be ignored; give class numbers"));
    }
    return ops::SumOfRows(ops::LogSoftmax(prediction) * q) *
           (sums_steps_ ? -1.0f : -1.0f / static_cast<float>(each));
  }
  if (labels.ndim() == 0 || WithoutUnitAxes(labels) != WithoutUnitAxes(scores.WithoutAxis(last))) {
    ThrowInvalid(StrCat("SoftmaxCrossEntropyLoss: labels ", labels, " and scores ", scores,
                        " do not fit; expected [batch, ...] class numbers and [batch, ..., classes]"));
  }
  const NDArray losses = ops::SoftmaxCrossEntropy(RowsOfClasses(prediction), FloatLabels(label),
                                                  label_smoothing_, ignored_label_);
  return OfEachSample(losses, batch, each, sums_steps_);
}

NDArray L2Loss::PerSample(const NDArray& prediction, const NDArray& label) const {
  return ops::L2(prediction, Alike(name(), prediction, label));
}

NDArray L1Loss::PerSample(const NDArray& prediction, const NDArray& label) const {
  return ops::L1(prediction, Alike(name(), prediction, label));
}

HuberLoss::HuberLoss(float rho, Reduction reduction) : Loss(reduction), rho_(rho) {
  if (!(rho > 0) || !std::isfinite(rho))
    ThrowInvalid(StrCat("HuberLoss: rho is ", rho, "; it must be a positive number"));
}

NDArray HuberLoss::PerSample(const NDArray& prediction, const NDArray& label) const {
  return ops::Huber(prediction, Alike(name(), prediction, label), rho_);
}

NDArray SigmoidBinaryCrossEntropyLoss::PerSample(const NDArray& prediction, const NDArray& label) const {
  return ops::SigmoidBinaryCrossEntropy(prediction, Alike(name(), prediction, label));
}

NDArray KLDivLoss::PerSample(const NDArray& prediction, const NDArray& label) const {
  const NDArray same = Alike(name(), prediction, label);
  return ops::KlDivergence(from_logits_ ? prediction : ops::LogSoftmax(prediction), same);
}

}  // namespace sluice::nn
