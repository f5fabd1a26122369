// The shape of an array: up to 8 axes with 64-bit extents, row-major. A scalar has no axes and one element.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <ostream>
#include <ranges>
#include <span>
#include <string>
#include <utility>

#include "sluice/error.h"

namespace sluice {

class Shape {
 public:
  static constexpr size_t kMaxAxes = 8;

  // The extent of one axis, made from an integer of any type but bool, so that {values.size(), 3} is a shape.
  struct Extent {
    template <std::integral Number>
    constexpr Extent(Number number)  // NOLINT: implicit on purpose
        : value(std::in_range<int64_t>(number) ? static_cast<int64_t>(number) : kTooLarge) {}
    Extent(bool) = delete;
    int64_t value;
  };

  Shape() = default;
  Shape(std::initializer_list<Extent> dims) : Shape(Copied(dims)) {}
  // Throws Error(kInvalidArgument) for a negative extent, too many axes, or more than 2^63-1 elements.
  explicit Shape(std::span<const int64_t> dims);
  // The same for a range of other integers, such as a std::vector<size_t>.
  template <std::ranges::sized_range Dims>
  requires std::constructible_from<Extent, std::ranges::range_reference_t<const Dims>> &&
      (!std::convertible_to<const Dims&, std::span<const int64_t>>)  //
      explicit Shape(const Dims& dims)
      : Shape(Copied(dims)) {}
  // Returns why `dims` is not a shape, or an empty string if it is one. It is for dims that come from
  // outside.
  static std::string InvalidReason(std::span<const int64_t> dims);

  size_t ndim() const { return ndim_; }
  // Returns the extent of `axis`, 0 for an axis beyond the last. Throws Error(kInvalidArgument) if `axis` is
  // not below kMaxAxes.
  int64_t operator[](size_t axis) const {
    if (axis >= kMaxAxes) [[unlikely]]
      ThrowNoAxis(axis);
    return dims_[axis];
  }
  int64_t size() const { return size_; }  // number of elements
  std::span<const int64_t> dims() const { return {dims_.data(), ndim_}; }
  // Return a shape with another extent at `axis` < ndim(); with one more axis, before `axis` <= ndim(); or
  // without `axis`. They throw Error(kInvalidArgument) for any other axis.
  Shape WithExtent(size_t axis, int64_t extent) const;
  Shape WithAxis(size_t axis, int64_t extent) const;
  Shape WithoutAxis(size_t axis) const;
  std::string ToString() const;  // "[64, 1, 28, 28]"
  bool operator==(const Shape& other) const = default;

 private:
  [[noreturn]] void ThrowNoAxis(size_t axis) const;
  static constexpr int64_t kTooLarge = std::numeric_limits<int64_t>::min();  // negative, so it is refused
  struct Listed {
    std::array<int64_t, kMaxAxes + 1> dims;  // one more than a shape may have, so that too many are refused
    size_t ndim;
  };
  template <typename Dims>
  static Listed Copied(const Dims& dims) {
    Listed listed{{}, 0};
    for (const Extent extent : dims) {
      if (listed.ndim == kMaxAxes + 1) break;
      listed.dims[listed.ndim++] = extent.value;
    }
    return listed;
  }
  explicit Shape(const Listed& listed) : Shape(std::span(listed.dims.data(), listed.ndim)) {}

  std::array<int64_t, kMaxAxes> dims_{};  // 0 beyond the last axis
  size_t ndim_ = 0;
  int64_t size_ = 1;
};

inline std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << shape.ToString();
}

}  // namespace sluice
