#include "autograd/ops/common.h"

namespace sluice::ops {

NDArray SoftmaxCrossEntropy(const NDArray& scores, const NDArray& labels) {
  RequireTogether("SoftmaxCrossEntropy", {&scores, &labels});
  if (scores.shape().ndim() != 2 || labels.size() != scores.shape()[0]) {
    Refuse("SoftmaxCrossEntropy",
           StrCat("scores ", scores.shape(), " and labels ", labels.shape(), " do not fit"));
  }
  const int64_t rows = scores.shape()[0], classes = scores.shape()[1];
  const Context context = scores.context();
  NDArray losses = NDArray::Empty({rows}, context), probabilities = NDArray::Empty(scores.shape(), context);
  LaunchOn("SoftmaxCrossEntropy", context, {scores, labels}, {losses, probabilities},
           [ps = DataOf(scores), pl = DataOf(labels), pp = DataOf(probabilities), po = DataOf(losses), rows,
            classes](Kernels& k) { k.SoftmaxCrossEntropy(ps, pl, pp, po, rows, classes); });
  Record(losses, {&scores},
         [probabilities, labels, rows, classes, context](const NDArray& grad, std::vector<NDArray>& to) {
           Target(to[0], probabilities.shape(), context);
           LaunchOn(
               "SoftmaxCrossEntropy backward", context, {probabilities, labels, grad}, {to[0]},
               [pp = DataOf(probabilities), pl = DataOf(labels), pg = DataOf(grad), gs = DataOf(to[0]), rows,
                classes](Kernels& k) { k.SoftmaxCrossEntropyBackward(pp, pl, pg, gs, rows, classes); });
         });
  return losses;
}

// One row's sum at a time: [n, m] -> [n].
static NDArray SumOfRows(const NDArray& x) {
  const int64_t rows = x.shape()[0], columns = rows == 0 ? 0 : x.size() / rows;
  NDArray out = NDArray::Empty({rows}, x.context());
  LaunchOn("SumOfRows", x.context(), {x}, {out},
           [px = DataOf(x), po = DataOf(out), rows, columns](Kernels& k) {
             for (int64_t row = 0; row < rows; ++row)
               po[row] = static_cast<float>(k.Sum(px + row * columns, columns));
           });
  Record(out, {&x}, [shape = x.shape(), rows, columns](const NDArray& grad, std::vector<NDArray>& to) {
    Target(to[0], shape, grad.context());
    LaunchOn("SumOfRows backward", grad.context(), {grad}, {to[0]},
             [pg = DataOf(grad), gx = DataOf(to[0]), rows, columns](Kernels& k) {
               for (int64_t row = 0; row < rows; ++row)
                 k.Fill(DType::kFloat32, gx + row * columns, pg[row], columns);
             });
  });
  return out;
}

NDArray L2(const NDArray& prediction, const NDArray& label) {
  const NDArray difference = prediction - label;
  const int64_t rows = difference.shape().ndim() == 0 ? 1 : difference.shape()[0];
  const float share = rows == 0 ? 0 : 0.5f * static_cast<float>(rows) / static_cast<float>(difference.size());
  return SumOfRows(difference * difference) * share;
}

}  // namespace sluice::ops
