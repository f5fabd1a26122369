#include "sluice/shape.h"

#include <algorithm>

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice {

Shape::Shape(std::span<const int64_t> dims) {
  if (const std::string why = InvalidReason(dims); !why.empty())
    throw Error(ErrorCode::kInvalidArgument, why);
  std::copy(dims.begin(), dims.end(), dims_.begin());
  ndim_ = dims.size();
  for (const int64_t dim : dims) size_ *= dim;
}

std::string Shape::InvalidReason(std::span<const int64_t> dims) {
  if (dims.size() > kMaxAxes) {
    return StrCat("shape [", StrJoin(dims), "] has ", dims.size(), " axes; at most ", kMaxAxes,
                  " are possible");
  }
  // The product leaves out zero extents: an array without elements may still have rows, whose size must fit.
  int64_t size = 1;
  for (const int64_t dim : dims) {
    if (dim < 0) return StrCat("shape [", StrJoin(dims), "] has a negative extent");
    if (dim > 0 && __builtin_mul_overflow(size, dim, &size)) {
      return StrCat("shape [", StrJoin(dims), "] has more than 2^63-1 elements");
    }
  }
  return {};
}

void Shape::ThrowNoAxis(size_t axis) const {
  throw Error(ErrorCode::kInvalidArgument, StrCat("there is no axis ", axis, " of shape ", ToString()));
}

Shape Shape::WithExtent(size_t axis, int64_t extent) const {
  if (axis >= ndim_) ThrowNoAxis(axis);
  auto dims = dims_;
  dims[axis] = extent;
  return Shape(std::span(dims).first(ndim_));
}

Shape Shape::WithAxis(size_t axis, int64_t extent) const {
  if (axis > ndim_) ThrowNoAxis(axis);
  std::array<int64_t, kMaxAxes + 1> dims{};
  std::copy_n(dims_.begin(), axis, dims.begin());
  dims[axis] = extent;
  std::copy(dims_.begin() + axis, dims_.begin() + ndim_, dims.begin() + axis + 1);
  return Shape(std::span(dims).first(ndim_ + 1));
}

Shape Shape::WithoutAxis(size_t axis) const {
  if (axis >= ndim_) ThrowNoAxis(axis);
  auto dims = dims_;
  std::copy(dims_.begin() + axis + 1, dims_.begin() + ndim_, dims.begin() + axis);
  return Shape(std::span(dims).first(ndim_ - 1));
}

std::string Shape::ToString() const {
  return StrCat("[", StrJoin(dims()), "]");
}

}  // namespace sluice
