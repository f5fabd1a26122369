// operator<< for arrays: values in brackets, type, shape and context.
#include <ostream>
#include <vector>

#include "base/strings.h"
#include "sluice/ndarray.h"

namespace sluice {
namespace {

constexpr int64_t kMostInFull = 1000;  // elements of the largest array that is written in full
constexpr int64_t kEdge = 3;           // extents written at each end of an axis that is shortened

// Writes the part of the array that begins at element `first` and spans the axes
// from `axis` on; value(i) returns element i.
template <typename Value>
void WriteAxis(std::ostream& out, const Shape& shape, size_t axis, int64_t first, const Value& value) {
  if (axis == shape.ndim()) {
    out << value(static_cast<size_t>(first));
    return;
  }
  int64_t stride = 1;
  for (size_t i = axis + 1; i < shape.ndim(); ++i) stride *= shape[i];
  const int64_t extent = shape[axis];
  const bool shortens = shape.size() > kMostInFull && extent > 2 * kEdge;
  out << '[';
  for (int64_t i = 0; i < extent; ++i) {
    if (i > 0) out << ", ";
    if (shortens && i == kEdge) {
      out << "..., ";
      i = extent - kEdge;
    }
    WriteAxis(out, shape, axis + 1, first + i * stride, value);
  }
  out << ']';
}

template <typename T>
void WriteValues(std::ostream& out, const NDArray& array) {
  const std::vector<T> values = array.ToVector<T>();
  WriteAxis(out, array.shape(), 0, 0,
            [&](size_t i) { return internal::Written(+values[i]); });  // + makes uint8 print as a number
}

NDArray InFloat32(const NDArray& array) {
  NDArray converted = NDArray::Empty(array.shape(), array.context());
  array.CopyTo(&converted);
  return converted;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const NDArray& array) {
  if (!array.valid()) return out << "no array";
  switch (array.dtype()) {
    case DType::kFloat32:
      WriteValues<float>(out, array);
      break;
    case DType::kFloat64:
      WriteValues<double>(out, array);
      break;
    case DType::kFloat16:
    case DType::kBFloat16:
      WriteValues<float>(out, InFloat32(array));
      break;
    case DType::kInt32:
      WriteValues<int32_t>(out, array);
      break;
    case DType::kInt64:
      WriteValues<int64_t>(out, array);
      break;
    case DType::kUInt8:
      WriteValues<uint8_t>(out, array);
      break;
  }
  return out << ' ' << Name(array.dtype()) << ' ' << array.shape() << " on " << array.context();
}

}  // namespace sluice
