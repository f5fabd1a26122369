#include "autograd/ops.h"

#include <algorithm>

#include "autograd/record.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/storage.h"

namespace sluice {

using autograd::Record;
using internal::DataOf;
using internal::Launch;

namespace {

[[noreturn]] void Refuse(std::string_view what, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, StrCat(what, ": ", why));
}

void RequireTogether(std::string_view what, std::initializer_list<const NDArray*> arrays) {
  const NDArray* first = nullptr;
  for (const NDArray* array : arrays) {
    if (!array->valid()) continue;
    if (array->dtype() != DType::kFloat32)
      Refuse(what, StrCat("needs float32 and got ", Name(array->dtype())));
    if (first == nullptr) first = array;
    if (array->context() != first->context()) {
      Refuse(what, StrCat("one array is on ", first->context(), ", another on ", array->context(),
                          "; AsInContext or CopyTo moves data"));
    }
  }
}

// Where a backward writes: the memory offered, or its own.
NDArray& Target(NDArray& offered, const Shape& shape, Context context) {
  if (!offered.valid()) offered = NDArray::Empty(shape, context);
  return offered;
}

float* DataOrNull(const NDArray& array) {
  return array.valid() ? DataOf(array) : nullptr;
}

// Launch with a vector of possibly invalid arrays.
void LaunchOn(std::string_view what, Context context, std::vector<NDArray> inputs,
              std::vector<NDArray> outputs, std::function<void(Kernels&)> work) {
  std::erase_if(inputs, [](const NDArray& array) { return !array.valid(); });
  std::erase_if(outputs, [](const NDArray& array) { return !array.valid(); });
  Launch(what, context, inputs, outputs, std::move(work));
}

bool Wanted(const NDArray& array) {
  return array.valid() && array.node() != nullptr;
}

NDArray Binary(std::string_view what, const NDArray& a, const NDArray& b,
               std::function<void(Kernels&, const float*, const float*, float*, int64_t)> run) {
  RequireTogether(what, {&a, &b});
  if (a.shape() != b.shape()) Refuse(what, StrCat("shapes ", a.shape(), " and ", b.shape(), " differ"));
  NDArray out = NDArray::Empty(a.shape(), a.context());
  LaunchOn(what, a.context(), {a, b}, {out},
           [run = std::move(run), pa = DataOf(a), pb = DataOf(b), po = DataOf(out),
            n = a.size()](Kernels& k) { run(k, pa, pb, po, n); });
  return out;
}

NDArray AffineOf(std::string_view what, const NDArray& a, float scale, float shift) {
  RequireTogether(what, {&a});
  NDArray out = NDArray::Empty(a.shape(), a.context());
  LaunchOn(what, a.context(), {a}, {out},
           [pa = DataOf(a), po = DataOf(out), scale, shift, n = a.size()](Kernels& k) {
             k.Affine(pa, scale, shift, po, n);
           });
  return out;
}

}  // namespace

NDArray operator+(const NDArray& a, const NDArray& b) {
  NDArray out = Binary("+", a, b, [](Kernels& k, const float* x, const float* y, float* o, int64_t n) {
    k.Combine(1, x, 1, y, o, n);
  });
  Record(out, {&a, &b}, [](const NDArray& grad, std::vector<NDArray>& to) { to[0] = to[1] = grad; });
  return out;
}

NDArray operator-(const NDArray& a, const NDArray& b) {
  NDArray out = Binary("-", a, b, [](Kernels& k, const float* x, const float* y, float* o, int64_t n) {
    k.Combine(1, x, -1, y, o, n);
  });
  Record(out, {&a, &b}, [](const NDArray& grad, std::vector<NDArray>& to) {
    to[0] = grad;
    to[1] = grad * -1.0f;
  });
  return out;
}

NDArray operator*(const NDArray& a, const NDArray& b) {
  NDArray out = Binary("*", a, b, [](Kernels& k, const float* x, const float* y, float* o, int64_t n) {
    k.Multiply(x, y, o, n);
  });
  Record(out, {&a, &b}, [a, b](const NDArray& grad, std::vector<NDArray>& to) {
    to[0] = grad * b;
    to[1] = grad * a;
  });
  return out;
}

NDArray operator*(const NDArray& a, float scalar) {
  NDArray out = AffineOf("*", a, scalar, 0);
  Record(out, {&a}, [scalar](const NDArray& grad, std::vector<NDArray>& to) { to[0] = grad * scalar; });
  return out;
}

NDArray operator+(const NDArray& a, float scalar) {
  NDArray out = AffineOf("+", a, 1, scalar);
  Record(out, {&a}, [](const NDArray& grad, std::vector<NDArray>& to) { to[0] = grad; });
  return out;
}

NDArray operator-(const NDArray& a) {
  return a * -1.0f;
}

NDArray NDArray::AsInContext(Context context) const {
  if (this->context() == context) return *this;
  NDArray moved = Empty(shape_, context, dtype());
  CopyTo(&moved);
  Record(moved, {this}, [from = this->context()](const NDArray& grad, std::vector<NDArray>& to) {
    to[0] = grad.AsInContext(from);
  });
  return moved;
}

namespace ops {
namespace {

void RequireSides(std::string_view what, const char* name, int64_t height, int64_t width, int64_t least) {
  constexpr int64_t kMost = int64_t{1} << 30;  // sums of a few cannot overflow
  if (std::min(height, width) >= least && std::max(height, width) <= kMost) return;
  Refuse(what,
         StrCat(name, " is ", height, "x", width, "; both numbers must be from ", least, " to ", kMost));
}

// That at least one position of the window lies within the padded image x [n, c, h, w].
void RequireWindow(std::string_view what, const Shape& x, const WindowShape& w) {
  RequireSides(what, "the window", w.height, w.width, 1);
  RequireSides(what, "the stride", w.stride_height, w.stride_width, 1);
  RequireSides(what, "the padding", w.pad_height, w.pad_width, 0);
  if (x[2] + 2 * w.pad_height < w.height || x[3] + 2 * w.pad_width < w.width) {
    Refuse(what, StrCat("x ", x, " with a padding of ", w.pad_height, "x", w.pad_width,
                        " is smaller than the window ", w.height, "x", w.width));
  }
}

}  // namespace

NDArray Dense(const NDArray& x, const NDArray& weight, const NDArray& bias) {
  RequireTogether("Dense", {&x, &weight, &bias});
  if (x.shape().ndim() != 2 || weight.shape().ndim() != 2 || x.shape()[1] != weight.shape()[1] ||
      (bias.valid() && bias.shape() != Shape({weight.shape()[0]}))) {
    Refuse("Dense", StrCat("x ", x.shape(), " and weight ", weight.shape(), " do not fit"));
  }
  const int64_t rows = x.shape()[0], in = x.shape()[1], units = weight.shape()[0];
  const Context context = x.context();
  NDArray out = NDArray::Empty({rows, units}, context);
  LaunchOn("Dense", context, {x, weight, bias}, {out},
           [px = DataOf(x), pw = DataOf(weight), pb = DataOrNull(bias), po = DataOf(out), rows, in,
            units](Kernels& k) { k.Dense(px, pw, pb, po, rows, in, units); });
  Record(out, {&x, &weight, &bias},
         [x, weight, bias, rows, in, units, context](const NDArray& grad, std::vector<NDArray>& to) {
           if (Wanted(x)) Target(to[0], x.shape(), context);
           if (Wanted(weight)) Target(to[1], weight.shape(), context);
           if (Wanted(bias)) Target(to[2], bias.shape(), context);
           // The weights' gradients first: they are pushed while the rest of backward runs.
           LaunchOn("Dense backward (weights)", context, {x, weight, grad}, {to[1], to[2]},
                    [px = DataOf(x), pw = DataOf(weight), pg = DataOf(grad), gw = DataOrNull(to[1]),
                     gb = DataOrNull(to[2]), rows, in,
                     units](Kernels& k) { k.DenseBackward(px, pw, pg, nullptr, gw, gb, rows, in, units); });
           if (!to[0].valid()) return;
           LaunchOn(
               "Dense backward", context, {x, weight, grad}, {to[0]},
               [px = DataOf(x), pw = DataOf(weight), pg = DataOf(grad), gx = DataOf(to[0]), rows, in,
                units](Kernels& k) { k.DenseBackward(px, pw, pg, gx, nullptr, nullptr, rows, in, units); });
         });
  return out;
}

NDArray Conv2D(const NDArray& x, const NDArray& weight, const NDArray& bias, const Window2D& w) {
  RequireTogether("Conv2D", {&x, &weight, &bias});
  const Shape &xs = x.shape(), &ws = weight.shape();
  if (xs.ndim() != 4 || ws.ndim() != 4 || xs[1] != ws[1] ||
      (bias.valid() && bias.shape() != Shape({ws[0]}))) {
    Refuse("Conv2D", StrCat("x ", xs, " and weight ", ws, " do not fit"));
  }
  const ConvShape shape{xs[0], xs[1],
                        xs[2], xs[3],
                        ws[0], {ws[2], ws[3], w.stride_height, w.stride_width, w.pad_height, w.pad_width}};
  RequireWindow("Conv2D", xs, shape.window);
  const Context context = x.context();
  NDArray out = NDArray::Empty({xs[0], ws[0], shape.out_height(), shape.out_width()}, context);
  LaunchOn("Conv2D", context, {x, weight, bias}, {out},
           [shape, px = DataOf(x), pw = DataOf(weight), pb = DataOrNull(bias), po = DataOf(out)](Kernels& k) {
             k.Conv(shape, px, pw, pb, po);
           });
  Record(out, {&x, &weight, &bias},
         [x, weight, bias, shape, context](const NDArray& grad, std::vector<NDArray>& to) {
           if (Wanted(x)) Target(to[0], x.shape(), context);
           if (Wanted(weight)) Target(to[1], weight.shape(), context);
           if (Wanted(bias)) Target(to[2], bias.shape(), context);
           LaunchOn("Conv2D backward", context, {x, weight, grad}, {to[0], to[1], to[2]},
                    [shape, px = DataOf(x), pw = DataOf(weight), pg = DataOf(grad), gx = DataOrNull(to[0]),
                     gw = DataOrNull(to[1]),
                     gb = DataOrNull(to[2])](Kernels& k) { k.ConvBackward(shape, px, pw, pg, gx, gw, gb); });
         });
  return out;
}

namespace {

NDArray Pool(std::string_view what, PoolKind kind, const NDArray& x, const Window2D& w) {
  RequireTogether(what, {&x});
  const Shape& xs = x.shape();
  if (xs.ndim() != 4) Refuse(what, StrCat("needs [n, c, h, w] and got ", xs));
  const PoolShape shape{
      xs[0], xs[1], xs[2],
      xs[3], xs[1], {w.height, w.width, w.stride_height, w.stride_width, w.pad_height, w.pad_width}};
  RequireWindow(what, xs, shape.window);
  if (w.pad_height >= w.height || w.pad_width >= w.width) {  // some windows would hold padding alone
    Refuse(what, StrCat("the padding ", w.pad_height, "x", w.pad_width, " must be smaller than the window ",
                        w.height, "x", w.width));
  }
  NDArray out = NDArray::Empty({xs[0], xs[1], shape.out_height(), shape.out_width()}, x.context());
  NDArray where =
      kind == PoolKind::kMax ? NDArray::Empty(out.shape(), x.context(), DType::kInt32) : NDArray();
  int32_t* place = where.valid() ? DataOf<int32_t>(where) : nullptr;
  LaunchOn(what, x.context(), {x}, {out, where},
           [=, px = DataOf(x), po = DataOf(out)](Kernels& k) { k.Pool(kind, shape, px, po, place); });
  Record(
      out, {&x},
      [kind, shape, where, place, xs, context = x.context()](const NDArray& grad, std::vector<NDArray>& to) {
        Target(to[0], xs, context);
        LaunchOn("pool backward", context, {grad, where}, {to[0]},
                 [=, pg = DataOf(grad), gx = DataOf(to[0])](Kernels& k) {
                   k.PoolBackward(kind, shape, pg, place, gx);
                 });
      });
  return out;
}

NDArray Activate(std::string_view what, ActivationKind kind, const NDArray& x) {
  RequireTogether(what, {&x});
  NDArray out = NDArray::Empty(x.shape(), x.context());
  LaunchOn(what, x.context(), {x}, {out}, [kind, px = DataOf(x), po = DataOf(out), n = x.size()](Kernels& k) {
    k.Activation(kind, px, po, n);
  });
  Record(out, {&x}, [kind, y = out](const NDArray& grad, std::vector<NDArray>& to) {
    Target(to[0], y.shape(), y.context());
    LaunchOn("activation backward", y.context(), {y, grad}, {to[0]},
             [kind, py = DataOf(y), pg = DataOf(grad), gx = DataOf(to[0]), n = y.size()](Kernels& k) {
               k.ActivationBackward(kind, py, pg, gx, n);
             });
  });
  return out;
}

}  // namespace

NDArray MaxPool2D(const NDArray& x, const Window2D& window) {
  return Pool("MaxPool2D", PoolKind::kMax, x, window);
}
NDArray AvgPool2D(const NDArray& x, const Window2D& window) {
  return Pool("AvgPool2D", PoolKind::kAverage, x, window);
}
NDArray Relu(const NDArray& x) {
  return Activate("relu", ActivationKind::kRelu, x);
}
NDArray Tanh(const NDArray& x) {
  return Activate("tanh", ActivationKind::kTanh, x);
}
NDArray Sigmoid(const NDArray& x) {
  return Activate("sigmoid", ActivationKind::kSigmoid, x);
}

NDArray Reshape(const NDArray& x, const Shape& shape) {
  NDArray out = x.Reshape(shape);
  Record(out, {&x},
         [from = x.shape()](const NDArray& grad, std::vector<NDArray>& to) { to[0] = grad.Reshape(from); });
  return out;
}

NDArray Flatten(const NDArray& x) {
  const Shape& shape = x.shape();
  if (shape.ndim() < 1) Refuse("Flatten", "a scalar has no batch axis");
  int64_t rest = 1;
  for (size_t axis = 1; axis < shape.ndim(); ++axis) rest *= shape[axis];
  return Reshape(x, {shape[0], rest});
}

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

NDArray Sum(const NDArray& x) {
  RequireTogether("Sum", {&x});
  NDArray out = NDArray::Empty({1}, x.context());
  LaunchOn("Sum", x.context(), {x}, {out}, [px = DataOf(x), po = DataOf(out), n = x.size()](Kernels& k) {
    *po = static_cast<float>(k.Sum(px, n));
  });
  Record(out, {&x}, [shape = x.shape()](const NDArray& grad, std::vector<NDArray>& to) {
    Target(to[0], shape, grad.context());
    LaunchOn("Sum backward", grad.context(), {grad}, {to[0]},
             [pg = DataOf(grad), gx = DataOf(to[0]), n = to[0].size()](Kernels& k) {
               k.Fill(DType::kFloat32, gx, *pg, n);
             });
  });
  return out;
}

NDArray Mean(const NDArray& x) {
  return Sum(x) * (1.0f / static_cast<float>(std::max<int64_t>(x.size(), 1)));
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

}  // namespace ops
}  // namespace sluice
