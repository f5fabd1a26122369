#include "autograd/ops/common.h"

namespace sluice::ops {

NDArray Embedding(const NDArray& ids, const NDArray& weight) {
  constexpr std::string_view kWhat = "Embedding";
  RequireTogether(kWhat, {&weight});
  if (!ids.valid()) RefuseNoArray(kWhat, "the array of ids");
  const DType type = ids.dtype();
  RequireNumbers(kWhat, "ids", ids);
  if (ids.context() != weight.context()) {
    Refuse(kWhat, StrCat("the ids are on ", ids.context(), ", the weight on ", weight.context(),
                         "; AsInContext or CopyTo moves data"));
  }
  if (weight.shape().ndim() != 2)
    Refuse(kWhat, StrCat("needs a weight [rows, columns] and got ", weight.shape()));
  const int64_t rows = weight.shape()[0], columns = weight.shape()[1];
  const Context context = weight.context();
  NDArray out = NDArray::Empty(ids.shape().WithAxis(ids.shape().ndim(), columns), context);
  LaunchOn(kWhat, context, {ids, weight}, {out},
           [type, pi = DataOf<std::byte>(ids), n = ids.size(), pw = DataOf(weight), rows, columns,
            po = DataOf(out)](Kernels& k) { k.Embedding(type, pi, n, pw, rows, columns, po); });
  Record(out, {&weight}, {"Embedding", {&ids}},
         [ids, type, rows, columns, context](const NDArray& grad, std::vector<NDArray>& to) {
           Target(to[0], {rows, columns}, context);
           LaunchOn(
               "Embedding backward", context, {ids, grad}, {to[0]},
               [type, pi = DataOf<std::byte>(ids), n = ids.size(), pg = DataOf(grad), rows, columns,
                gw = DataOf(to[0])](Kernels& k) { k.EmbeddingBackward(type, pi, n, pg, rows, columns, gw); });
         });
  return out;
}

NDArray MeanOfSteps(const NDArray& x) {
  constexpr std::string_view kWhat = "MeanOfSteps";
  RequireTogether(kWhat, {&x});
  const Shape& shape = x.shape();
  if (shape.ndim() < 2 || shape[1] == 0) Refuse(kWhat, StrCat("needs [n, steps, ...] and got ", shape));
  const Context context = x.context();
  NDArray out = NDArray::Empty(shape.WithoutAxis(1), context);
  const int64_t n = shape[0], steps = shape[1], columns = n == 0 ? 0 : out.size() / n;
  LaunchOn(kWhat, context, {x}, {out}, [n, steps, columns, px = DataOf(x), po = DataOf(out)](Kernels& k) {
    k.MeanOfSteps(px, po, n, steps, columns);
  });
  Record(out, {&x}, [n, steps, columns, shape, context](const NDArray& grad, std::vector<NDArray>& to) {
    Target(to[0], shape, context);
    LaunchOn("MeanOfSteps backward", context, {grad}, {to[0]},
             [n, steps, columns, pg = DataOf(grad), gx = DataOf(to[0])](Kernels& k) {
               k.MeanOfStepsBackward(pg, gx, n, steps, columns);
             });
  });
  return out;
}

}  // namespace sluice::ops
