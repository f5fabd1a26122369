// Operations that change shapes: Reshape, Flatten, Concat, Slice, and the views of NDArray.
//
// ops::Concat and ops::Slice copy blocks of memory, in the channels-last layout where the axis allows it.
// NDArray::Reshape and NDArray::SliceRows return views that share the storage. Layers and programs call these
// functions; each call is recorded on the calling thread's tape.
#include <span>
#include <utility>

#include "autograd/ops/common.h"
#include "base/inline_vector.h"

namespace sluice::ops {
namespace {

constexpr size_t Bytes(int64_t elements) {
  return static_cast<size_t>(elements) * sizeof(float);
}

// How an axis lies in memory: there are `outer` rows, and each holds the positions of the axis one after
// another, with `inner` elements per position.
struct AxisStrides {
  AxisStrides(const Shape& shape, size_t axis, ImageLayout layout) {
    for (size_t i = 0; i < axis; ++i) outer *= shape[i];
    for (size_t i = axis + 1; i < shape.ndim(); ++i) inner *= shape[i];
    if (layout == ImageLayout::kChannelsLast && axis == 1) outer *= std::exchange(inner, 1);
  }
  int64_t outer = 1, inner = 1;
};

// The layout in which images are cut along `axis`: channels-last images stay so along the batch and channel
// axes, and are made row-major for all others.
ImageLayout LayoutAlong(size_t axis, ImageLayout layout) {
  return axis <= 1 ? layout : ImageLayout::kRowMajor;
}

// A part of a concatenation: in each row of the whole, `width` elements from `offset` on.
struct Piece {
  Shape shape;
  int64_t offset = 0, width = 0;
  bool wanted = false;  // whether its gradient is
};

// A concatenation: the whole has `outer` rows of `row` elements.
struct Cut {
  Shape whole;
  ImageLayout layout = ImageLayout::kRowMajor;
  int64_t outer = 1, row = 0;
  InlineVector<Piece, 4> pieces;
};

// What the launched work keeps of a part.
struct Block {
  Data<float> part;
  int64_t offset, width;
};

Cut CutOf(std::span<const NDArray> parts, size_t axis) {
  if (parts.empty()) ThrowInvalid("Concat", "there is no array to concatenate");
  RequireTogether("Concat", {&parts.front()});
  const Shape& first = parts.front().shape();
  if (axis >= first.ndim()) ThrowInvalid("Concat", StrCat("there is no axis ", axis, " in ", first));
  Cut cut;
  const auto lie_last = [](const NDArray& part) { return LayoutOf(part) == ImageLayout::kChannelsLast; };
  if (std::ranges::any_of(parts, lie_last)) cut.layout = LayoutAlong(axis, ImageLayout::kChannelsLast);
  const AxisStrides along(first, axis, cut.layout);
  cut.outer = along.outer;
  int64_t extent = 0;
  for (const NDArray& part : parts) {
    RequireTogether("Concat", {&parts.front(), &part});
    const Shape& shape = part.shape();
    for (size_t i = 0; i < std::max(first.ndim(), shape.ndim()); ++i) {
      if (shape.ndim() != first.ndim() || (i != axis && shape[i] != first[i]))
        ThrowInvalid("Concat", StrCat(first, " and ", shape, " differ elsewhere than at axis ", axis));
    }
    cut.pieces.push_back({shape, cut.row, shape[axis] * along.inner, Wanted(part)});
    cut.row += cut.pieces.back().width;
    extent += shape[axis];
  }
  cut.whole = first.WithExtent(axis, extent);
  return cut;
}

// The backward of Concat: copies each part's piece of `grad` to its gradient.
void ConcatBackward(const Cut& cut, const NDArray& grad, std::vector<NDArray>& to) {
  const NDArray whole = InLayout(grad, cut.layout);
  for (size_t i = 0; i < cut.pieces.size(); ++i) {
    const Piece& piece = cut.pieces[i];
    if (!piece.wanted) continue;
    ImageTarget target(to[i], cut.layout, piece.shape, grad.context());
    LaunchOn("Concat backward", grad.context(), {whole}, {target.images()},
             [width = piece.width, row = cut.row, outer = cut.outer, offset = piece.offset,
              from = ImageDataOf(whole), part = target.data()](Kernels& k) {
               k.CopyBlocks({.from = from + offset,
                             .from_step = Bytes(row),
                             .to = part,
                             .to_step = Bytes(width),
                             .bytes = Bytes(width),
                             .count = outer});
             });
    target.Finish();
  }
}

void RequireReshape(const NDArray& x, const Shape& shape) {
  if (!x.valid()) ThrowNoArray("Reshape", "the array");
  if (shape.size() == x.size()) return;
  ThrowInvalid("Reshape",
               StrCat("shape ", x.shape(), " has ", x.size(), " elements, ", shape, " has ", shape.size()));
}

// Records `out`, which has the elements of `x` in another shape, as the result of an operation on `x`.
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
  if (!x.valid()) ThrowNoArray("Flatten", "the array");
  if (shape.ndim() < 1) ThrowInvalid("Flatten", "a scalar has no batch axis");
  int64_t rest = 1;
  for (size_t axis = 1; axis < shape.ndim(); ++axis) rest *= shape[axis];
  return Reshape(x, {shape[0], rest});
}

NDArray Concat(std::span<const NDArray> parts, size_t axis) {
  Cut cut = CutOf(parts, axis);
  NDArray out = EmptyIn(cut.layout, cut.whole, parts.front().context());
  InlineVector<NDArray, 4> images;
  InlineVector<Block, 8> blocks;
  for (size_t i = 0; i < parts.size(); ++i) {
    images.push_back(InLayout(parts[i], cut.layout));
    blocks.push_back({ImageDataOf(images.back()), cut.pieces[i].offset, cut.pieces[i].width});
  }
  LaunchOn("Concat", out.context(), std::span<const NDArray>(images.begin(), images.end()), {out},
           [blocks = std::move(blocks), row = cut.row, outer = cut.outer, to = ImageDataOf(out)](Kernels& k) {
             for (const auto& [part, offset, width] : blocks)
               k.CopyBlocks({.from = part,
                             .from_step = Bytes(width),
                             .to = to + offset,
                             .to_step = Bytes(row),
                             .bytes = Bytes(width),
                             .count = outer});
           });
  Record(out, parts, [cut = std::move(cut)](const NDArray& grad, std::vector<NDArray>& to) {
    ConcatBackward(cut, grad, to);
  });
  return out;
}

NDArray Slice(const NDArray& x, size_t axis, int64_t begin, int64_t end) {
  RequireTogether("Slice", {&x});
  const Shape& shape = x.shape();
  if (axis >= shape.ndim()) ThrowInvalid("Slice", StrCat("there is no axis ", axis, " in ", shape));
  if (begin < 0 || end < begin || end > shape[axis])
    ThrowInvalid("Slice", StrCat("[", begin, ", ", end, ") is no part of axis ", axis, " of ", shape));
  const ImageLayout layout = LayoutAlong(axis, LayoutOf(x));
  const AxisStrides along(shape, axis, layout);
  const int64_t outer = along.outer, row = shape[axis] * along.inner, width = (end - begin) * along.inner,
                offset = begin * along.inner;
  const Context context = x.context();
  const NDArray images = InLayout(x, layout);
  NDArray out = EmptyIn(layout, shape.WithExtent(axis, end - begin), context);
  LaunchOn("Slice", context, {images}, {out},
           [=, px = ImageDataOf(images), po = ImageDataOf(out)](Kernels& k) {
             k.CopyBlocks({.from = px + offset,
                           .from_step = Bytes(row),
                           .to = po,
                           .to_step = Bytes(width),
                           .bytes = Bytes(width),
                           .count = outer});
           });
  Record(out, {&x}, [=](const NDArray& grad, std::vector<NDArray>& to) {
    const NDArray part = InLayout(grad, layout);
    ImageTarget target(to[0], layout, shape, context);
    LaunchOn("Slice backward", context, {part}, {target.images()},
             [=, pg = ImageDataOf(part), gx = target.data()](Kernels& k) {
               k.Fill({.dtype = DType::kFloat32, .out = gx, .value = 0, .n = outer * row});
               k.CopyBlocks({.from = pg,
                             .from_step = Bytes(width),
                             .to = gx + offset,
                             .to_step = Bytes(row),
                             .bytes = Bytes(width),
                             .count = outer});
             });
    target.Finish();
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
  ops::RequireArray("SliceRows", "the array", *this);
  if (shape_.ndim() == 0 || begin < 0 || end < begin || end > shape_[0])
    ops::ThrowInvalid("SliceRows", StrCat("rows [", begin, ", ", end, ") of shape ", shape_));
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
  ops::RequireArray("Copy", "the array", *this);
  NDArray copy = Empty(shape_, context(), dtype());
  CopyTo(&copy);
  ops::Record(copy, {this}, [](const NDArray& grad, std::vector<NDArray>& to) { to[0] = grad; });
  return copy;
}

}  // namespace sluice
