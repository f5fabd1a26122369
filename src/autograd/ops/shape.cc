#include <span>

#include "autograd/ops/common.h"
#include "base/inline_vector.h"

namespace sluice::ops {
namespace {

// A part of a concatenation: `width` of the elements of each row of the whole, from `offset` on.
struct Piece {
  Shape shape;
  int64_t offset = 0, width = 0;
  bool wanted = false;  // its gradient
};

// The whole: `outer` rows of `row` elements.
struct Cut {
  Shape whole;
  int64_t outer = 1, row = 0;
  InlineVector<Piece, 4> pieces;
};

// What a kernel's call keeps of a part.
template <typename Float>
struct Block {
  Float* part;
  int64_t offset, width;
};

Cut CutOf(std::span<const NDArray> parts, size_t axis) {
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
    cut.pieces.push_back({shape, cut.row, shape[axis] * inner, Wanted(part)});
    cut.row += cut.pieces.back().width;
    extent += shape[axis];
  }
  cut.whole = first.WithExtent(axis, extent);
  return cut;
}

constexpr size_t Bytes(int64_t elements) {
  return static_cast<size_t>(elements) * sizeof(float);
}

// A concatenation's backward.
void CutUp(const Cut& cut, const NDArray& grad, std::vector<NDArray>& to) {
  InlineVector<Block<float>, 8> blocks;
  for (size_t i = 0; i < cut.pieces.size(); ++i) {
    const Piece& piece = cut.pieces[i];
    if (!piece.wanted) continue;
    Target(to[i], piece.shape, grad.context());
    blocks.push_back({DataOf(to[i]), piece.offset, piece.width});
  }
  LaunchOn("Concat backward", grad.context(), {grad}, to,
           [blocks = std::move(blocks), row = cut.row, outer = cut.outer, from = DataOf(grad)](Kernels& k) {
             for (const auto& [part, offset, width] : blocks)
               k.CopyBlocks(from + offset, Bytes(row), part, Bytes(width), Bytes(width), outer);
           });
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

NDArray Concat(std::span<const NDArray> parts, size_t axis) {
  Cut cut = CutOf(parts, axis);
  NDArray out = NDArray::Empty(cut.whole, parts.front().context());
  InlineVector<Block<const float>, 8> blocks;
  for (size_t i = 0; i < parts.size(); ++i)
    blocks.push_back({DataOf(parts[i]), cut.pieces[i].offset, cut.pieces[i].width});
  LaunchOn("Concat", out.context(), parts, {out},
           [blocks = std::move(blocks), row = cut.row, outer = cut.outer, to = DataOf(out)](Kernels& k) {
             for (const auto& [part, offset, width] : blocks)
               k.CopyBlocks(part, Bytes(width), to + offset, Bytes(row), Bytes(width), outer);
           });
  Record(out, parts,
         [cut = std::move(cut)](const NDArray& grad, std::vector<NDArray>& to) { CutUp(cut, grad, to); });
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
