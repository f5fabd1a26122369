// The extent of an array: row-major, 64-bit, up to 8 axes. A scalar has no axes and one element.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>
#include <string>

namespace sluice {

class Shape {
 public:
  static constexpr size_t kMaxAxes = 8;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  // Throws Error(kInvalidArgument) for a negative extent, too many axes, or a size beyond 2^63-1 elements.
  explicit Shape(std::span<const int64_t> dims);
  // Why `dims` is no shape, or empty. For dims that come from outside.
  static std::string WhyInvalid(std::span<const int64_t> dims);

  size_t ndim() const { return ndim_; }
  int64_t operator[](size_t axis) const { return dims_[axis]; }
  int64_t size() const { return size_; }  // number of elements
  std::span<const int64_t> dims() const { return {dims_.data(), ndim_}; }
  // With another extent at `axis` < ndim().
  Shape WithExtent(size_t axis, int64_t extent) const;
  // With one axis more, before `axis` <= ndim(), or one less.
  Shape WithAxis(size_t axis, int64_t extent) const;
  Shape WithoutAxis(size_t axis) const;
  std::string ToString() const;  // "[64, 1, 28, 28]"
  bool operator==(const Shape& other) const = default;

 private:
  std::array<int64_t, kMaxAxes> dims_{};  // 0 behind the last axis
  size_t ndim_ = 0;
  int64_t size_ = 1;
};

inline std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << shape.ToString();
}

}  // namespace sluice
