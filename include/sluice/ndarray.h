// Arrays on devices.
//
// An NDArray is a handle: copies share the storage. Operations return at once; each runs on its context's
// stream when its inputs are ready. Order inside a context is program order, between contexts it follows the
// data. Reading a value on the host waits. An error inside an operation surfaces at the next wait on its
// result, as sluice::Error naming the operation.
//
// Operations on arrays of different contexts are Error(kInvalidArgument) naming both; CopyTo and AsInContext
// move data. Arithmetic is float32; other types are for storage, copies and the wire.
//
// Thread safety: different arrays may be used from different threads; one array from one thread at a time.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "sluice/context.h"
#include "sluice/dtype.h"
#include "sluice/error.h"
#include "sluice/shape.h"

namespace sluice {

class NDArray;

namespace internal {
struct Storage;
struct AutogradNode;
NDArray ViewOf(const NDArray& array, const Shape& shape, int64_t begin);
template <typename Range>
using ElementOf = std::remove_cv_t<std::ranges::range_value_t<Range>>;
// What lies in memory as an array's elements do: std::vector, std::span, std::array and C arrays.
template <typename Range>
concept Elements = std::ranges::contiguous_range<const Range> && std::ranges::sized_range<const Range> &&
    std::same_as<decltype(DTypeOf<ElementOf<Range>>::value), const DType>;
template <typename T>
concept Arithmetic = std::is_arithmetic_v<T>;
}  // namespace internal

class NDArray {
 public:
  NDArray() = default;  // no array; valid() is false
  // Zeros.
  explicit NDArray(const Shape& shape, Context context = cpu(0), DType dtype = DType::kFloat32);
  // Contents undefined.
  static NDArray Empty(const Shape& shape, Context context = cpu(0), DType dtype = DType::kFloat32);
  // Copies values; their number must be shape.size(). Without a shape: one axis. The array's type is that of
  // the values: std::vector<double> makes an array of float64, AsType(DType::kFloat32) one to compute with.
  template <typename T>
  static NDArray From(std::span<const T> values, const Shape& shape, Context context = cpu(0)) {
    return FromBytes(std::as_bytes(values), values.size(), DTypeOf<T>::value, shape, context);
  }
  template <internal::Elements Values>
  static NDArray From(const Values& values, const Shape& shape, Context context = cpu(0)) {
    return From(std::span<const internal::ElementOf<Values>>(values), shape, context);
  }
  template <internal::Elements Values>
  static NDArray From(const Values& values) {
    return From(values, {std::ranges::size(values)});
  }
  // Numbers in braces are float32.
  template <internal::Arithmetic T>
  static NDArray From(std::initializer_list<T> values, const Shape& shape, Context context = cpu(0)) {
    const std::vector<float> floats(values.begin(), values.end());
    return From(std::span<const float>(floats), shape, context);
  }
  template <internal::Arithmetic T>
  static NDArray From(std::initializer_list<T> values) {
    return From(values, {values.size()});
  }
  // Numbers of several types: {1, 2.5}.
  static NDArray From(std::initializer_list<double> values, const Shape& shape, Context context = cpu(0)) {
    return From<double>(values, shape, context);
  }
  static NDArray From(std::initializer_list<double> values) { return From<double>(values); }

  bool valid() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const;
  Context context() const;
  int64_t size() const { return shape_.size(); }
  bool SharesStorage(const NDArray& other) const { return storage_ == other.storage_; }

  // Waits, then copies out. T must be the array's dtype.
  template <typename T = float>
  std::vector<T> ToVector() const {
    std::vector<T> values(static_cast<size_t>(size()));
    CopyToHost(std::as_writable_bytes(std::span(values)), DTypeOf<T>::value);
    return values;
  }
  float ToScalar() const;  // float32 with one element
  // Waits until every write issued so far is done; throws what went wrong.
  void WaitToRead() const;

  // Views on the same storage; differentiable.
  NDArray Reshape(const Shape& shape) const;            // same number of elements
  NDArray SliceRows(int64_t begin, int64_t end) const;  // [begin, end) of the first axis

  void CopyTo(NDArray* destination) const;     // same shape; converts the dtype between float types
  NDArray AsInContext(Context context) const;  // itself when it is there already; differentiable
  NDArray AsType(DType dtype) const;           // a copy; between float types; differentiable
  NDArray Copy() const;                        // differentiable
  NDArray Detach() const;                      // the same memory, through which no gradient goes back
  void Fill(double value);                     // Error(kInvalidArgument) where a whole type cannot hold it
  void SetBytes(std::span<const std::byte> bytes);  // whole contents, copied before it returns

  // float32, same shape and context. Error(kFailedPrecondition) while the tape records, and for an array that
  // it has recorded: Backward needs what was there.
  NDArray& operator+=(const NDArray& other);
  NDArray& operator-=(const NDArray& other);
  NDArray& operator*=(const NDArray& other);
  NDArray& operator/=(const NDArray& other);
  NDArray& operator+=(float scalar);
  NDArray& operator-=(float scalar);
  NDArray& operator*=(float scalar);
  NDArray& operator/=(float scalar);

  // Autograd: include/sluice/autograd.h.
  const std::shared_ptr<internal::AutogradNode>& node() const { return node_; }
  void set_node(std::shared_ptr<internal::AutogradNode> node) { node_ = std::move(node); }
  const std::shared_ptr<internal::Storage>& storage() const { return storage_; }
  int64_t offset() const { return offset_; }  // elements

 private:
  friend NDArray internal::ViewOf(const NDArray& array, const Shape& shape, int64_t begin);
  static NDArray FromBytes(std::span<const std::byte> bytes, size_t count, DType dtype, const Shape& shape,
                           Context context);
  void CopyToHost(std::span<std::byte> out, DType wanted) const;

  std::shared_ptr<internal::Storage> storage_;
  int64_t offset_ = 0;
  Shape shape_;
  std::shared_ptr<internal::AutogradNode> node_;
};

// Differentiable when recording. float32, same shape and context. Division is IEEE 754's: by 0 it gives
// infinity or NaN.
NDArray operator+(const NDArray& a, const NDArray& b);
NDArray operator-(const NDArray& a, const NDArray& b);
NDArray operator*(const NDArray& a, const NDArray& b);
NDArray operator/(const NDArray& a, const NDArray& b);
NDArray operator+(const NDArray& a, float scalar);
NDArray operator-(const NDArray& a, float scalar);
NDArray operator*(const NDArray& a, float scalar);
NDArray operator/(const NDArray& a, float scalar);
NDArray operator-(float scalar, const NDArray& a);
NDArray operator/(float scalar, const NDArray& a);
inline NDArray operator+(float scalar, const NDArray& a) {
  return a + scalar;
}
inline NDArray operator*(float scalar, const NDArray& a) {
  return a * scalar;
}
NDArray operator-(const NDArray& a);

// Waits, then writes the values in brackets, type, shape and context: "[[1, 2], [3, 4]] float32 [2, 2] on
// cpu(0)". Of an axis with more than 6 extents, where the array has more than 1000 elements, the first and
// the last 3. An array that was never made is "no array".
std::ostream& operator<<(std::ostream& out, const NDArray& array);

// Waits for everything issued on every context of the default devices.
void WaitAll();

}  // namespace sluice
