// Lists of arrays as arguments, in any notation that callers use.
//
// A std::vector<NDArray> must not be made of pointers in braces: {&x, &y} would be taken for the range from x
// to y. The classes of this header take such pointers for the arrays that they point to. A null pointer
// becomes an array that is not valid(), which every call refuses.
#pragma once

#include <concepts>
#include <initializer_list>
#include <ranges>
#include <utility>
#include <vector>

#include "sluice/ndarray.h"

namespace sluice {

namespace internal {
template <typename Range, typename T>
concept RangeOf = std::ranges::input_range<const Range> &&
    std::convertible_to<std::ranges::range_reference_t<const Range>, T>;
inline NDArray ArrayAt(const NDArray* array) {
  return array == nullptr ? NDArray() : *array;
}
}  // namespace internal

// The arrays of one key: {x, y}, {&x, &y}, or any range of arrays or of pointers to arrays.
class ArrayList {
 public:
  ArrayList() = default;
  ArrayList(std::vector<NDArray> arrays) : arrays_(std::move(arrays)) {}  // NOLINT: implicit on purpose
  ArrayList(std::initializer_list<NDArray> arrays) : arrays_(arrays) {}
  ArrayList(std::initializer_list<const NDArray*> arrays) { Add(arrays); }
  template <internal::RangeOf<const NDArray*> Range>
  ArrayList(const Range& arrays) {  // NOLINT: implicit on purpose
    Add(arrays);
  }
  template <internal::RangeOf<NDArray> Range>
  ArrayList(const Range& arrays) {  // NOLINT: implicit on purpose
    for (const NDArray& array : arrays) arrays_.push_back(array);
  }
  const std::vector<NDArray>& arrays() const& { return arrays_; }
  std::vector<NDArray> arrays() && { return std::move(arrays_); }

 private:
  template <typename Pointers>
  void Add(const Pointers& pointers) {
    for (const NDArray* array : pointers) arrays_.push_back(internal::ArrayAt(array));
  }
  std::vector<NDArray> arrays_;
};

// The arrays of a call's keys: {x, y} has one array for each key, {{x0, x1}, {y0, y1}} has one for each key
// and device. A range of arrays, of pointers to arrays or of lists of arrays is accepted as well.
class ArrayLists {
 public:
  using Values = std::vector<NDArray>;

  ArrayLists() = default;
  ArrayLists(std::initializer_list<NDArray> arrays) {
    for (const NDArray& array : arrays) lists_.push_back({array});
  }
  ArrayLists(std::initializer_list<ArrayList> lists) {
    for (const ArrayList& list : lists) lists_.push_back(list.arrays());
  }
  template <internal::RangeOf<const NDArray*> Range>
  ArrayLists(const Range& arrays) {  // NOLINT: implicit on purpose
    for (const NDArray* array : arrays) lists_.push_back({internal::ArrayAt(array)});
  }
  template <internal::RangeOf<NDArray> Range>
  ArrayLists(const Range& arrays) {  // NOLINT: implicit on purpose
    for (const NDArray& array : arrays) lists_.push_back({array});
  }
  template <internal::RangeOf<Values> Range>
  ArrayLists(const Range& lists) {  // NOLINT: implicit on purpose
    for (const Values& list : lists) lists_.push_back(list);
  }
  const std::vector<Values>& lists() const { return lists_; }

 private:
  std::vector<Values> lists_;
};

}  // namespace sluice
