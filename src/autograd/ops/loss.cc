// Operations that losses are made of (sluice/loss.h): one value for each row of predictions.
//
// Softmax cross-entropy and log-softmax work on rows of classes. RowLoss is the common body of the
// losses that compare predictions and labels number by number; labels get a gradient only where such a
// loss depends on the difference alone. The classes of nn/loss.cc and programs call these functions;
// each call is recorded on the calling thread's tape.
#include <cmath>

#include "autograd/ops/common.h"

namespace sluice::ops {

NDArray SoftmaxCrossEntropy(const NDArray& scores, const NDArray& labels, float smoothing,
                            std::optional<int64_t> ignored_label) {
  constexpr std::string_view kWhat = "SoftmaxCrossEntropy";
  RequireTogether(kWhat, {&scores, &labels});
  if (scores.shape().ndim() != 2 || labels.size() != scores.shape()[0])
    ThrowInvalid(kWhat, StrCat("scores ", scores.shape(), " and labels ", labels.shape(), " do not fit"));
  if (!(smoothing >= 0 && smoothing <= 1))
    ThrowInvalid(kWhat, StrCat("the smoothing is ", smoothing, "; it must be from 0 to 1"));
  const float ignored = ignored_label ? static_cast<float>(*ignored_label) : kNoLabelIgnored;
  const int64_t rows = scores.shape()[0], classes = scores.shape()[1];
  const Context context = scores.context();
  NDArray losses = NDArray::Empty({rows}, context), probabilities = NDArray::Empty(scores.shape(), context);
  LaunchOn(kWhat, context, {scores, labels}, {losses, probabilities},
           [ps = DataOf(scores), pl = DataOf(labels), pp = DataOf(probabilities), po = DataOf(losses),
            smoothing, ignored, rows, classes](Kernels& k) {
             k.SoftmaxCrossEntropy({.rows = rows,
                                    .classes = classes,
                                    .smoothing = smoothing,
                                    .ignored = ignored,
                                    .scores = ps,
                                    .labels = pl,
                                    .probabilities = pp,
                                    .losses = po});
           });
  Record(losses, {&scores}, {"SoftmaxCrossEntropy", {&labels}},
         [probabilities, labels, smoothing, ignored, rows, classes, context](const NDArray& grad,
                                                                             std::vector<NDArray>& to) {
           Target(to[0], probabilities.shape(), context);
           LaunchOn("SoftmaxCrossEntropy backward", context, {probabilities, labels, grad}, {to[0]},
                    [pp = DataOf(probabilities), pl = DataOf(labels), pg = DataOf(grad), gs = DataOf(to[0]),
                     smoothing, ignored, rows, classes](Kernels& k) {
                      k.SoftmaxCrossEntropyBackward({.rows = rows,
                                                     .classes = classes,
                                                     .smoothing = smoothing,
                                                     .ignored = ignored,
                                                     .probabilities = pp,
                                                     .labels = pl,
                                                     .grad = pg,
                                                     .grad_scores = gs});
                    });
         });
  return losses;
}

NDArray LogSoftmax(const NDArray& x) {
  RequireTogether("LogSoftmax", {&x});
  const Shape& shape = x.shape();
  if (shape.ndim() < 1 || shape[shape.ndim() - 1] == 0)
    ThrowInvalid("LogSoftmax", StrCat("the last axis of ", shape, " has no elements"));
  const int64_t columns = shape[shape.ndim() - 1], rows = x.size() / columns;
  NDArray out = NDArray::Empty(shape, x.context());
  LaunchOn("LogSoftmax", x.context(), {x}, {out},
           [px = DataOf(x), po = DataOf(out), rows, columns](Kernels& k) {
             k.LogSoftmax({.rows = rows, .columns = columns, .x = px, .out = po});
           });
  Record(out, {&x}, {"LogSoftmax", {&out}},
         [y = out, rows, columns](const NDArray& grad, std::vector<NDArray>& to) {
           Target(to[0], y.shape(), y.context());
           LaunchOn(
               "LogSoftmax backward", y.context(), {y, grad}, {to[0]},
               [py = DataOf(y), pg = DataOf(grad), gx = DataOf(to[0]), rows, columns](Kernels& k) {
                 k.LogSoftmaxBackward({.rows = rows, .columns = columns, .y = py, .grad = pg, .grad_x = gx});
               });
         });
  return out;
}

namespace {

// Whether the loss depends on prediction - label alone, so that the label's gradient is the prediction's,
// negated.
bool IsOfDifferences(RowLossKind kind) {
  return kind == RowLossKind::kSquare || kind == RowLossKind::kAbsolute || kind == RowLossKind::kHuber;
}

NDArray RowLoss(std::string_view what, RowLossKind kind, const NDArray& prediction, const NDArray& label,
                float rho = 1) {
  RequireTogether(what, {&prediction, &label});
  const Shape& ps = prediction.shape();
  if (ps != label.shape() || ps.ndim() == 0)
    ThrowInvalid(what,
                 StrCat("predictions ", ps, " and labels ", label.shape(), " must have one shape [n, ...]"));
  RowLossShape shape{kind, ps[0], 0, rho};
  shape.columns = shape.rows == 0 ? 0 : prediction.size() / shape.rows;
  if (shape.rows > 0 && shape.columns == 0)
    ThrowInvalid(what, StrCat("samples of ", ps, " have no elements"));
  const Context context = prediction.context();
  NDArray losses = NDArray::Empty({shape.rows}, context);
  LaunchOn(what, context, {prediction, label}, {losses},
           [shape, pp = DataOf(prediction), pl = DataOf(label), po = DataOf(losses)](Kernels& k) {
             k.RowLoss({.shape = shape, .prediction = pp, .label = pl, .losses = po});
           });
  const auto backward = [shape, prediction, label, context](const NDArray& grad, std::vector<NDArray>& to) {
    Target(to[0], prediction.shape(), context);
    LaunchOn("loss backward", context, {prediction, label, grad}, {to[0]},
             [shape, pp = DataOf(prediction), pl = DataOf(label), pg = DataOf(grad),
              gp = DataOf(to[0])](Kernels& k) {
               k.RowLossBackward(
                   {.shape = shape, .prediction = pp, .label = pl, .grad = pg, .grad_prediction = gp});
             });
    if (to.size() > 1 && Wanted(label)) to[1] = to[0] * -1.0f;
  };
  if (IsOfDifferences(kind)) {
    Record(losses, {&prediction, &label}, {what, {&prediction, &label}}, backward);
  } else {
    Record(losses, {&prediction}, {what, {&prediction, &label}}, backward);
  }
  return losses;
}

}  // namespace

NDArray L2(const NDArray& prediction, const NDArray& label) {
  return RowLoss("L2", RowLossKind::kSquare, prediction, label);
}
NDArray L1(const NDArray& prediction, const NDArray& label) {
  return RowLoss("L1", RowLossKind::kAbsolute, prediction, label);
}
NDArray Huber(const NDArray& prediction, const NDArray& label, float rho) {
  if (!(rho > 0 && rho < HUGE_VALF))
    ThrowInvalid("Huber", StrCat("rho is ", rho, "; it must be a positive number"));
  return RowLoss("Huber", RowLossKind::kHuber, prediction, label, rho);
}
NDArray SigmoidBinaryCrossEntropy(const NDArray& scores, const NDArray& label) {
  return RowLoss("SigmoidBinaryCrossEntropy", RowLossKind::kLogistic, scores, label);
}
NDArray KlDivergence(const NDArray& log_probabilities, const NDArray& label) {
  return RowLoss("KlDivergence", RowLossKind::kDivergence, log_probabilities, label);
}

NDArray SumOfRows(const NDArray& x) {
  RequireTogether("SumOfRows", {&x});
  if (x.shape().ndim() < 1) ThrowInvalid("SumOfRows", "a scalar has no rows");
  const int64_t rows = x.shape()[0], columns = rows == 0 ? 0 : x.size() / rows;
  NDArray out = NDArray::Empty({rows}, x.context());
  LaunchOn("SumOfRows", x.context(), {x}, {out},
           [px = DataOf(x), po = DataOf(out), rows, columns](Kernels& k) {
             k.Sum({.a = px, .sums = po, .rows = rows, .columns = columns});
           });
  Record(out, {&x}, [shape = x.shape(), rows, columns](const NDArray& grad, std::vector<NDArray>& to) {
    Target(to[0], shape, grad.context());
    LaunchOn("SumOfRows backward", grad.context(), {grad}, {to[0]},
             [pg = DataOf(grad), gx = DataOf(to[0]), rows, columns](Kernels& k) {
               k.FillRows({.values = pg, .out = gx, .rows = rows, .columns = columns});
             });
  });
  return out;
}

}  // namespace sluice::ops
