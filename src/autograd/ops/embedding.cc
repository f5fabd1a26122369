// Embeddings, means of bags and of steps, and their gradients. Each function checks its arrays, issues its
// kernel and records its backward, which for a table with a row-sparse gradient hands on rows (rows_of_ids.h)
// in place of a dense array. Layers and programs call it on the training thread.
#include "autograd/ops/common.h"
#include "autograd/ops/rows_of_ids.h"

namespace sluice::ops {

namespace {

EmbeddingShape ShapeOf(std::string_view what, const NDArray& ids, const NDArray& weight,
                       std::optional<int64_t> padding) {
  RequireTogether(what, {&weight});
  if (!ids.valid()) ThrowNoArray(what, "the array of ids");
  RequireNumbers(what, "ids", ids);
  if (ids.context() != weight.context()) {
    ThrowInvalid(what, StrCat("the ids are on ", ids.context(), ", the weight on ", weight.context(),
                              "; AsInContext or CopyTo moves data"));
  }
  if (weight.shape().ndim() != 2)
    ThrowInvalid(what, StrCat("needs a weight [rows, columns] and got ", weight.shape()));
  const int64_t rows = weight.shape()[0], columns = weight.shape()[1];
  if (padding && (*padding < 0 || *padding >= rows))
    ThrowInvalid(what, StrCat("padding ", *padding, " is no row of [0, ", rows, ")"));
  return {ids.dtype(), rows, columns, padding.value_or(-1)};
}

}  // namespace

NDArray Embedding(const NDArray& ids, const NDArray& weight, std::optional<int64_t> padding) {
  constexpr std::string_view kWhat = "Embedding";
  const EmbeddingShape shape = ShapeOf(kWhat, ids, weight, padding);
  const Context context = weight.context();
  NDArray out = NDArray::Empty(ids.shape().WithAxis(ids.shape().ndim(), shape.columns), context);
  LaunchOn(kWhat, context, {ids, weight}, {out},
           [shape, pi = DataOf<std::byte>(ids), n = ids.size(), pw = DataOf(weight), po = DataOf(out)](
               Kernels& k) { k.Embedding({.shape = shape, .ids = pi, .n = n, .weight = pw, .out = po}); });
  if (const auto table = autograd::RowVariable(weight)) {
    Record(out, {&weight}, {kWhat, {&ids}},
           [ids, padding, table](const NDArray& grad, std::vector<NDArray>&) {
             autograd::AddRows(*table, RowsOfIds(ids, grad, padding));
           });
    return out;
  }
  Record(out, {&weight}, {kWhat, {&ids}},
         [ids, shape, context](const NDArray& grad, std::vector<NDArray>& to) {
           Target(to[0], {shape.rows, shape.columns}, context);
           LaunchOn("Embedding backward", context, {ids, grad}, {to[0]},
                    [shape, pi = DataOf<std::byte>(ids), n = ids.size(), pg = DataOf(grad),
                     gw = DataOf(to[0])](Kernels& k) {
                      k.EmbeddingBackward({.shape = shape, .ids = pi, .n = n, .grad = pg, .grad_weight = gw});
                    });
         });
  return out;
}

NDArray EmbeddingBag(const NDArray& ids, const NDArray& weight, std::optional<int64_t> padding) {
  constexpr std::string_view kWhat = "EmbeddingBag";
  const EmbeddingShape shape = ShapeOf(kWhat, ids, weight, padding);
  if (ids.shape().ndim() != 2) ThrowInvalid(kWhat, StrCat("needs ids [n, steps] and got ", ids.shape()));
  const int64_t n = ids.shape()[0], steps = ids.shape()[1];
  const Context context = weight.context();
  NDArray out = NDArray::Empty({n, shape.columns}, context);
  LaunchOn(kWhat, context, {ids, weight}, {out},
           [shape, pi = DataOf<std::byte>(ids), n, steps, pw = DataOf(weight), po = DataOf(out)](Kernels& k) {
             k.EmbeddingBag({.shape = shape, .ids = pi, .n = n, .steps = steps, .weight = pw, .out = po});
           });
  if (const auto table = autograd::RowVariable(weight)) {
    Record(out, {&weight}, {kWhat, {&ids}},
           [ids, padding, table](const NDArray& grad, std::vector<NDArray>&) {
             autograd::AddRows(*table, RowsOfBags(ids, grad, padding));
           });
    return out;
  }
  Record(out, {&weight}, {kWhat, {&ids}},
         [ids, shape, n, steps, context](const NDArray& grad, std::vector<NDArray>& to) {
           Target(to[0], {shape.rows, shape.columns}, context);
           LaunchOn("EmbeddingBag backward", context, {ids, grad}, {to[0]},
                    [shape, pi = DataOf<std::byte>(ids), n, steps, pg = DataOf(grad),
                     gw = DataOf(to[0])](Kernels& k) {
                      k.EmbeddingBagBackward(
                          {.shape = shape, .ids = pi, .n = n, .steps = steps, .grad = pg, .grad_weight = gw});
                    });
         });
  return out;
}

NDArray MeanOfSteps(const NDArray& x) {
  constexpr std::string_view kWhat = "MeanOfSteps";
  RequireTogether(kWhat, {&x});
  const Shape& shape = x.shape();
  if (shape.ndim() < 2 || shape[1] == 0) ThrowInvalid(kWhat, StrCat("needs [n, steps, ...] and got ", shape));
  const Context context = x.context();
  NDArray out = NDArray::Empty(shape.WithoutAxis(1), context);
  const int64_t n = shape[0], steps = shape[1], columns = n == 0 ? 0 : out.size() / n;
  LaunchOn(kWhat, context, {x}, {out}, [n, steps, columns, px = DataOf(x), po = DataOf(out)](Kernels& k) {
    k.MeanOfSteps({.x = px, .out = po, .n = n, .steps = steps, .columns = columns});
  });
  Record(out, {&x}, [n, steps, columns, shape, context](const NDArray& grad, std::vector<NDArray>& to) {
    Target(to[0], shape, context);
    LaunchOn("MeanOfSteps backward", context, {grad}, {to[0]},
             [n, steps, columns, pg = DataOf(grad), gx = DataOf(to[0])](Kernels& k) {
               k.MeanOfStepsBackward({.grad = pg, .grad_x = gx, .n = n, .steps = steps, .columns = columns});
             });
  });
  return out;
}

}  // namespace sluice::ops
