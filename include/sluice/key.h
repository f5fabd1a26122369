// Key names an array in a KVStore.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "sluice/error.h"

namespace sluice {

namespace internal {
template <typename T>
concept Character = std::same_as<T, char> || std::same_as<T, wchar_t> || std::same_as<T, char8_t> ||
    std::same_as<T, char16_t> || std::same_as<T, char32_t>;
template <typename T>
concept NoKey = std::same_as<T, bool> || Character<T>;
template <typename T>
concept PlainEnum = std::is_enum_v<T> && std::convertible_to<T, int64_t>;  // not an enum class
template <typename T>
concept KeyNumber = (std::integral<T> && !NoKey<T>) || PlainEnum<T>;
}  // namespace internal

// A key is a number or a name; the keys of one store are all numbers or all names. Integers of every type,
// and the values of an enum that is not an enum class, become numbers; strings become names. bool, characters
// and nullptr are not keys: they do not compile.
class Key : public std::variant<int64_t, std::string> {
 public:
  using Variant = std::variant<int64_t, std::string>;

  Key() = default;  // the number 0
  // Throws Error(kInvalidArgument) for a number beyond 2^63 - 1.
  template <internal::KeyNumber Number>
  Key(Number number) : Variant(std::in_place_index<0>, InRange(number)) {}  // NOLINT: implicit on purpose
  Key(std::string name) : Variant(std::move(name)) {}                       // NOLINT: implicit on purpose
  Key(std::string_view name) : Variant(std::string(name)) {}                // NOLINT: implicit on purpose
  // Throws Error(kInvalidArgument) for a null pointer.
  Key(const char* name) : Variant(std::string(NotNull(name))) {}  // NOLINT: implicit on purpose
  Key(Variant key) : Variant(std::move(key)) {}                   // NOLINT: implicit on purpose
  Key(std::nullptr_t) = delete;
  template <internal::NoKey T>
  Key(T) = delete;

 private:
  template <typename Number>
  static int64_t InRange(Number number) {
    if constexpr (std::is_enum_v<Number>) {
      return InRange(+static_cast<std::underlying_type_t<Number>>(number));  // +: int for bool and char
    } else {
      if (std::in_range<int64_t>(number)) return static_cast<int64_t>(number);
      throw Error(ErrorCode::kInvalidArgument,
                  "a key is the number " + std::to_string(number) + "; at most 2^63 - 1 is taken");
    }
  }
  static const char* NotNull(const char* name) {
    if (name != nullptr) return name;
    throw Error(ErrorCode::kInvalidArgument, "a key's name is a null pointer; give a text or a number");
  }
};
std::string ToString(const Key& key);

namespace internal {
template <typename Range>
concept KeyRange = std::ranges::input_range<const Range> &&
    std::convertible_to<std::ranges::range_reference_t<const Range>, Key>;
}  // namespace internal

// The keys of a call, in any notation that callers use: {"a", "b"}, {0, 1}, or any range of strings or
// integers. It is a type of parameters: an object that was made of a std::vector<Key>, or of another KeyList,
// refers to it and must not outlive it.
class KeyList {
 public:
  KeyList(std::initializer_list<Key> keys) : own_(keys) {}
  KeyList(const KeyList& other) : other_(&other.keys()) {}
  KeyList& operator=(const KeyList&) = delete;
  template <std::same_as<std::vector<Key>> Vector>
  KeyList(const Vector& keys) : other_(&keys) {}  // NOLINT: implicit on purpose
  template <internal::KeyRange Range>
  requires(!std::same_as<Range, std::vector<Key>>)  //
      KeyList(const Range& keys) {                  // NOLINT: implicit on purpose
    for (const auto& key : keys) own_.emplace_back(key);
  }
  const std::vector<Key>& keys() const { return other_ == nullptr ? own_ : *other_; }

 private:
  std::vector<Key> own_;
  const std::vector<Key>* other_ = nullptr;  // if it is not null, the keys are these
};
namespace internal {
template <typename T>
concept Keys = std::convertible_to<const T&, KeyList>;
}  // namespace internal

}  // namespace sluice

template <>
struct std::hash<sluice::Key> : std::hash<sluice::Key::Variant> {};
