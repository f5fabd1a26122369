#include "autograd/ops/common.h"

namespace sluice::ops {
namespace {

// Where the parts of a concatenation lie in the whole: `outer` rows, of which part i has offsets[i] to
// offsets[i] + widths[i].
struct Cut {
  Shape whole;
  int64_t outer = 1, row = 0;
  std::vector<int64_t> offsets, widths;  // elements
};

Cut CutOf(const std::vector<NDArray>& parts, size_t axis) {
  if (parts.empty()) Refuse("Concat", "there is no array to concatenate");
  RequireTogether("Concat", {&parts.front()});
  const Shape& first = parts.front().shape();
  if (axis >= first.ndim()) Refuse("Concat", StrCat("there is no axis ", axis, " in ", first));
  Cut cut;
  int64_t inner = 1;
  for (size_t i = 0; i < axis; ++i) cut.outer *= first[i];
  for (size_t i = axis + 1; i < first.ndim(); ++i) inner *= first[i];
  int64_t extent = 0;
  for (const NDArray& part : parts) {
    RequireTogether("Concat", {&parts.front(), &part});
    const Shape& shape = part.shape();
    for (size_t i = 0; i < std::max(first.ndim(), shape.ndim()); ++i) {
      if (shape.ndim() != first.ndim() || (i != axis && shape[i] != first[i]))
        Refuse("Concat", StrCat(first, " and ", shape, " differ elsewhere than at axis ", axis));
    }
    cut.offsets.push_back(cut.row);
    cut.widths.push_back(shape[axis] * inner);
    cut.row += cut.widths.back();
    extent += shape[axis];
  }
  cut.whole = first.WithExtent(axis, extent);
  return cut;
}

constexpr size_t Bytes(int64_t elements) {
  return static_cast<size_t>(elements) * sizeof(float);
}

void RequireReshape(const NDArray& x, const Shape& shape) {
  if (!x.valid()) RefuseNoArray("Reshape", "the array");
  if (shape.size() == x.size()) return;
  Refuse("Reshape",
         StrCat("shape ", x.shape(), " has ", x.size(), " elements, ", shape, " has ", shape.size()));
}

// `out`, with the elements of `x` in another shape, as the result of an operation on it.
void RecordReshape(NDArray& out, const NDArray& x) {
  Record(out, {&x},
         [from = x.shape()](const NDArray& grad, std::vector<NDArray>& to) { to[0] = grad.Reshape(from); });
}

}  // namespace

NDArray Reshape(const NDArray& x, const Shape& shape) {
  RequireReshape(x, shape);
  NDArray out = internal::ViewOf(InLayout(x, ImageLayout::kRowMajor), shape);
  RecordReshape(out, x);
  return out;
}

NDArray Flatten(const NDArray& x) {
  const Shape& shape = x.shape();
  if (!x.valid()) RefuseNoArray("Flatten", "the array");
  if (shape.ndim() < 1) Refuse("Flatten", "a scalar has no batch axis");
  int64_t rest = 1;
  for (size_t axis = 1; axis < shape.ndim(); ++axis) rest *= shape[axis];
  return Reshape(x, {shape[0], rest});
}

NDArray Concat(const std::vector<NDArray>& parts, size_t axis) {
  const Cut cut = CutOf(parts, axis);
  NDArray out = NDArray::Empty(cut.whole, parts.front().context());
  std::vector<const float*> from;
  for (const NDArray& part : parts) from.push_back(DataOf(part));
  LaunchOn("Concat", out.context(), parts, {out}, [cut, from, to = DataOf(out)](Kernels& k) {
    for (size_t i = 0; i < from.size(); ++i) {
      k.CopyBlocks(from[i], Bytes(cut.widths[i]), to + cut.offsets[i], Bytes(cut.row), Bytes(cut.widths[i]),
                   cut.outer);
    }
  });
  Record(out, parts, [parts, cut](const NDArray& grad, std::vector<NDArray>& to) {
    std::vector<float*> targets;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (Wanted(parts[i])) Target(to[i], parts[i].shape(), grad.context());
      targets.push_back(DataOrNull(to[i]));
    }
    LaunchOn("Concat backward", grad.context(), {grad}, to, [cut, targets, from = DataOf(grad)](Kernels& k) {
      for (size_t i = 0; i < targets.size(); ++i) {
        if (targets[i] == nullptr) continue;
        k.CopyBlocks(from + cut.offsets[i], Bytes(cut.row), targets[i], Bytes(cut.widths[i]),
                     Bytes(cut.widths[i]), cut.outer);
      }
    });
  });
  return out;
}

NDArray Slice(const NDArray& x, size_t axis, int64_t begin, int64_t end) {
  RequireTogether("Slice", {&x});
  const Shape& shape = x.shape();
  if (axis >= shape.ndim()) Refuse("Slice", StrCat("there is no axis ", axis, " in ", shape));
  if (begin < 0 || end < begin || end > shape[axis])
    Refuse("Slice", StrCat("[", begin, ", ", end, ") is no part of axis ", axis, " of ", shape));
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < axis; ++i) outer *= shape[i];
  for (size_t i = axis + 1; i < shape.ndim(); ++i) inner *= shape[i];
  const int64_t row = shape[axis] * inner, width = (end - begin) * inner, offset = begin * inner;
  const Context context = x.context();
  NDArray out = NDArray::Empty(shape.WithExtent(axis, end - begin), context);
  LaunchOn("Slice", context, {x}, {out}, [=, px = DataOf(x), po = DataOf(out)](Kernels& k) {
    k.CopyBlocks(px + offset, Bytes(row), po, Bytes(width), Bytes(width), outer);
  });
  Record(out, {&x}, [=](const NDArray& grad, std::vector<NDArray>& to) {
    Target(to[0], shape, context);
    LaunchOn("Slice backward", context, {grad}, {to[0]},
             [=, pg = DataOf(grad), gx = DataOf(to[0])](Kernels& k) {
               k.Fill(DType::kFloat32, gx, 0, outer * row);
               k.CopyBlocks(pg, Bytes(width), gx + offset, Bytes(row), Bytes(width), outer);
             });
  });
  return out;
}

}  // namespace sluice::ops

namespace sluice {

NDArray NDArray::Reshape(const Shape& shape) const {
  ops::RequireReshape(*this, shape);
  NDArray view = internal::ViewOf(*this, shape);
  ops::RecordReshape(view, *this);
  return view;
}

NDArray NDArray::SliceRows(int64_t begin, int64_t end) const {
  if (shape_.ndim() == 0 || begin < 0 || end < begin || end > shape_[0])
    ops::Refuse("SliceRows", StrCat("rows [", begin, ", ", end, ") of shape ", shape_));
  const int64_t row = shape_[0] == 0 ? 0 : size() / shape_[0];
  NDArray view = internal::ViewOf(*this, shape_.WithExtent(0, end - begin), begin * row);
  ops::Record(view, {this},
              [from = shape_, type = dtype(), begin, end](const NDArray& grad, std::vector<NDArray>& to) {
                if (!to[0].valid()) to[0] = Empty(from, grad.context(), type);
                to[0].Fill(0);
                NDArray rows = to[0].SliceRows(begin, end);
                grad.CopyTo(&rows);
              });
  return view;
}

NDArray NDArray::Copy() const {
  NDArray copy = Empty(shape_, context(), dtype());
  CopyTo(&copy);
  ops::Record(copy, {this}, [](const NDArray& grad, std::vector<NDArray>& to) { to[0] = grad; });
  return copy;
}

}  // namespace sluice
