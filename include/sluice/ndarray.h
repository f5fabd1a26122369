// Arrays on devices.
//
// An NDArray is a handle: copies share the storage. Operations return at once; each runs on its context's
// stream when its inputs are ready. Operations on one context run in program order; operations on different
// contexts are ordered by the arrays that they share. Reading a value on the host waits for it. If an
// operation fails, the next wait on its result throws sluice::Error, which names the operation.
//
// An operation on arrays of different contexts throws Error(kInvalidArgument), which names both contexts;
// CopyTo and AsInContext move data between contexts. Arithmetic is float32; the other types are for storage,
// copies and messages.
//
// Thread safety: different arrays may be used from different threads at the same time; one array may be used
// by one thread at a time.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <ranges>
#include <span>
#include <string>
#include <utility>
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
// What NDArray::From and ToVector do for any type of elements.
NDArray MakeFrom(std::span<const std::byte> bytes, size_t count, DType dtype, const Shape& shape,
                 Context context);
void CopyToHost(const NDArray& array, DType wanted, std::span<std::byte> out);
[[noreturn]] void ThrowNoInt64(const std::string& value);
template <typename Range>
using ElementOf = std::remove_cv_t<std::ranges::range_value_t<Range>>;
// Ranges whose elements lie in memory as those of an array do: std::vector, std::span, std::array, C arrays.
template <typename Range>
concept Elements = std::ranges::contiguous_range<const Range> && std::ranges::sized_range<const Range> &&
    std::same_as<decltype(DTypeOf<ElementOf<Range>>::value), const DType>;
// Ranges of integers of which no array is made, such as std::vector<size_t>. They become arrays of int64.
template <typename Range>
concept OtherIntegers = std::ranges::input_range<const Range> && std::integral<ElementOf<Range>> &&
                        !std::same_as<ElementOf<Range>, bool> &&
                        !Elements<Range> && !requires {
  DTypeOf<ElementOf<Range>>::value;
};
template <typename T>
concept Arithmetic = std::is_arithmetic_v<T>;
}  // namespace internal

class NDArray {
 public:
  NDArray() = default;  // no array; valid() is false
  // Makes an array of zeros.
  explicit NDArray(const Shape& shape, Context context = cpu(0), DType dtype = DType::kFloat32);
  NDArray(const Shape& shape, DType dtype) : NDArray(shape, cpu(0), dtype) {}
  // Makes an array whose contents are undefined.
  static NDArray Empty(const Shape& shape, Context context = cpu(0), DType dtype = DType::kFloat32);
  // Makes an array with copies of `values`, whose number must be shape.size(). Without a shape the array has
  // one axis. The array has the type of the values: std::vector<double> makes an array of float64, from which
  // AsType(DType::kFloat32) makes one to compute with.
  template <typename T>
  static NDArray From(std::span<const T> values, const Shape& shape, Context context = cpu(0)) {
    return internal::MakeFrom(std::as_bytes(values), values.size(), DTypeOf<T>::value, shape, context);
  }
  template <internal::Elements Values>
  static NDArray From(const Values& values, const Shape& shape, Context context = cpu(0)) {
    return From(std::span<const internal::ElementOf<Values>>(values), shape, context);
  }
  template <internal::Elements Values>
  static NDArray From(const Values& values) {
    return From(values, {std::ranges::size(values)});
  }
  // Integers that are neither int32, int64 nor uint8, such as size_t, make an array of int64. Throws
  // Error(kInvalidArgument) for one that int64 cannot hold.
  template <internal::OtherIntegers Values>
  static NDArray From(const Values& values, const Shape& shape, Context context = cpu(0)) {
    std::vector<int64_t> integers;
    for (const auto value : values) {
      if (!std::in_range<int64_t>(value)) internal::ThrowNoInt64(std::to_string(value));
      integers.push_back(static_cast<int64_t>(value));
    }
    return From(integers, shape, context);
  }
  template <internal::OtherIntegers Values>
  static NDArray From(const Values& values) {
    return From(values, {std::ranges::distance(values)});
  }
  // Numbers in braces make an array of float32.
  template <internal::Arithmetic T>
  static NDArray From(std::initializer_list<T> values, const Shape& shape, Context context = cpu(0)) {
    const std::vector<float> floats(values.begin(), values.end());
    return From(std::span<const float>(floats), shape, context);
  }
  template <internal::Arithmetic T>
  static NDArray From(std::initializer_list<T> values) {
    return From(values, {values.size()});
  }
  // The same for numbers of several types, such as {1, 2.5}.
  static NDArray From(std::initializer_list<double> values, const Shape& shape, Context context = cpu(0)) {
    return From<double>(values, shape, context);
  }
  static NDArray From(std::initializer_list<double> values) { return From<double>(values); }

  // Makes an array of the program's own memory, which is not copied: `data` are shape.size() elements,
  // row-major, aligned as their type. `owner` keeps the memory alive; it is released, on any thread, when no
  // handle and no operation uses the array any more. Meanwhile the program may read the memory after
  // WaitToRead, and may write it once the operations that read the array are done as well. Throws
  // Error(kInvalidArgument) for null, for memory that is not aligned and for a context on a GPU.
  static NDArray Wrap(void* data, const Shape& shape, std::shared_ptr<const void> owner,
                      DType dtype = DType::kFloat32, Context context = cpu(0));

  bool valid() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const;
  Context context() const;
  int64_t size() const { return shape_.size(); }
  bool SharesStorage(const NDArray& other) const { return storage_ == other.storage_; }

  // Waits for the array's value and returns a copy. T must be the type that belongs to dtype().
  template <typename T = float>
  std::vector<T> ToVector() const {
    std::vector<T> values(static_cast<size_t>(size()));
    internal::CopyToHost(*this, DTypeOf<T>::value, std::as_writable_bytes(std::span(values)));
    return values;
  }
  float ToScalar() const;  // for float32 arrays with one element; waits as well
  // Waits until every write to the array that was issued so far is done, and throws the failure of the write
  // if there is one.
  void WaitToRead() const;

  // Return views on the same storage. Both are differentiable.
  NDArray Reshape(const Shape& shape) const;            // same number of elements
  NDArray SliceRows(int64_t begin, int64_t end) const;  // [begin, end) of the first axis

  // Copies to an array of the same shape. Converts between floating types, and from integers to float32.
  void CopyTo(NDArray* destination) const;
  template <std::same_as<NDArray> Array>
  void CopyTo(Array& destination) const {
    CopyTo(&destination);
  }
  NDArray AsInContext(Context context) const;  // *this if it is on `context` already; differentiable
  NDArray AsType(DType dtype) const;           // a copy; converts as CopyTo does; differentiable
  NDArray Copy() const;                        // differentiable
  NDArray Detach() const;                      // the same memory, through which no gradient is propagated
  void Fill(double value);  // throws Error(kInvalidArgument) when an integer type cannot hold the value
  void SetBytes(std::span<const std::byte> bytes);  // the whole contents; copied before it returns

  // Arithmetic in place, on float32 arrays of the same shape and context. The operators throw
  // Error(kFailedPrecondition) while the tape records, and for an array that the tape has recorded, since
  // Backward needs the old value.
  NDArray& operator+=(const NDArray& other);
  NDArray& operator-=(const NDArray& other);
  NDArray& operator*=(const NDArray& other);
  NDArray& operator/=(const NDArray& other);
  NDArray& operator+=(float scalar);
  NDArray& operator-=(float scalar);
  NDArray& operator*=(float scalar);
  NDArray& operator/=(float scalar);

  // For autograd (include/sluice/autograd.h) and the library itself.
  const std::shared_ptr<internal::AutogradNode>& node() const { return node_; }
  void set_node(std::shared_ptr<internal::AutogradNode> node) { node_ = std::move(node); }
  const std::shared_ptr<internal::Storage>& storage() const { return storage_; }
  int64_t offset() const { return offset_; }  // elements

 private:
  friend NDArray internal::ViewOf(const NDArray& array, const Shape& shape, int64_t begin);

  std::shared_ptr<internal::Storage> storage_;
  int64_t offset_ = 0;
  Shape shape_;
  std::shared_ptr<internal::AutogradNode> node_;
};

// Arithmetic on float32 arrays of the same shape and context. The operators are differentiable while the tape
// records. Division is that of IEEE 754: division by 0 gives infinity or NaN.
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

// Waits for the array, then writes its values in brackets, its type, shape and context: "[[1, 2], [3, 4]]
// float32 [2, 2] on cpu(0)". If the array has more than 1000 elements, an axis of more than 6 entries is
// shortened to the first and the last 3. An array that is not valid() is written as "no array".
std::ostream& operator<<(std::ostream& out, const NDArray& array);

// Waits for all operations issued on every context of the default devices.
void WaitAll();

}  // namespace sluice
