// Lists of arrays as arguments, in any notation that callers use.
//
// A parameter of type std::vector<NDArray> would take pointers in braces, {&x, &y}, for the range from x to
// y. The classes of this header take them for the arrays that they point to. A null pointer becomes an array
// that is not valid(), which every call refuses.
//
// Both are types of parameters: an object that was made of a std::vector refers to it and must not outlive
// it.
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <ranges>
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

// One array or several, such as those of one key: x, &x, {x, y}, {&x, &y}, or any range of arrays or of
// pointers to arrays.
class ArrayList {
 public:
  using Arrays = std::vector<NDArray>;

  ArrayList() = default;
  ArrayList(const NDArray& array) : own_{array} {}                     // NOLINT: implicit on purpose
  ArrayList(const NDArray* array) : own_{internal::ArrayAt(array)} {}  // NOLINT: implicit on purpose
  ArrayList(std::initializer_list<NDArray> arrays) : own_(arrays) {}
  ArrayList(std::initializer_list<const NDArray*> arrays) { Add(arrays); }
  // A template, since braces must not make a vector first.
  template <std::same_as<Arrays> Vector>
  ArrayList(const Vector& arrays) : other_(&arrays) {}  // NOLINT: implicit on purpose
  template <internal::RangeOf<const NDArray*> Range>
  ArrayList(const Range& arrays) {  // NOLINT: implicit on purpose
    Add(arrays);
  }
  template <internal::RangeOf<NDArray> Range>
  requires(!std::same_as<Range, Arrays>)  //
      ArrayList(const Range& arrays) {    // NOLINT: implicit on purpose
    for (const NDArray& array : arrays) own_.push_back(array);
  }

  const Arrays& arrays() const { return other_ == nullptr ? own_ : *other_; }
  auto begin() const { return arrays().begin(); }
  auto end() const { return arrays().end(); }
  size_t size() const { return arrays().size(); }
  bool empty() const { return arrays().empty(); }
  const NDArray& operator[](size_t i) const { return arrays()[i]; }

 private:
  template <typename Pointers>
  void Add(const Pointers& pointers) {
    for (const NDArray* array : pointers) own_.push_back(internal::ArrayAt(array));
  }
  Arrays own_;
  const Arrays* other_ = nullptr;  // if it is not null, the list is this one
};

// The arrays of a call's keys: {x, y} has one array for each key, {{x0, x1}, {y0, y1}} has one for each key
// and device. Pointers may stand for arrays. A range of arrays, of pointers to arrays or of lists of arrays
// is accepted as well.
class ArrayLists {
 public:
  using Lists = std::vector<ArrayList::Arrays>;

  ArrayLists() = default;
  ArrayLists(std::initializer_list<NDArray> arrays) {
    for (const NDArray& array : arrays) own_.push_back({array});
  }
  ArrayLists(std::initializer_list<ArrayList> lists) {
    for (const ArrayList& list : lists) own_.push_back(list.arrays());
  }
  template <std::same_as<Lists> Vector>
  ArrayLists(const Vector& lists) : other_(&lists) {}  // NOLINT: implicit on purpose
  template <internal::RangeOf<ArrayList> Range>
  requires(!std::same_as<Range, Lists>)  //
      ArrayLists(const Range& lists) {   // NOLINT: implicit on purpose
    for (const auto& list : lists) own_.push_back(ArrayList(list).arrays());
  }

  const Lists& lists() const { return other_ == nullptr ? own_ : *other_; }

 private:
  Lists own_;
  const Lists* other_ = nullptr;  // if it is not null, the lists are these
};

}  // namespace sluice
