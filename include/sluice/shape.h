// The extent of an array: row-major, 64-bit, up to 8 axes. A scalar has no axes and one element.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <vector>

namespace sluice {

class Shape {
 public:
  static constexpr size_t kMaxAxes = 8;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::vector<int64_t>(dims)) {}
  // Throws Error(kInvalidArgument) for a negative extent, too many axes, or a size beyond 2^63-1 elements.
  explicit Shape(std::vector<int64_t> dims);
  // Why `dims` is no shape, or empty. For dims that come from outside.
  static std::string WhyInvalid(const std::vector<int64_t>& dims);

  size_t ndim() const { return dims_.size(); }
  int64_t operator[](size_t axis) const { return dims_[axis]; }
  int64_t size() const { return size_; }  // number of elements
  const std::vector<int64_t>& dims() const { return dims_; }
  std::string ToString() const;  // "[64, 1, 28, 28]"
  bool operator==(const Shape& other) const { return dims_ == other.dims_; }

 private:
  std::vector<int64_t> dims_;
  int64_t size_ = 1;
};

inline std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << shape.ToString();
}

}  // namespace sluice
