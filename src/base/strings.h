// Builds and parses short texts. All functions are pure.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace sluice {

namespace internal {
template <typename T>
concept Text = std::is_convertible_v<const T&, std::string_view>;
template <typename T>
concept Number = std::is_integral_v<T> &&(sizeof(T) > 1);

template <Text T>
void Append(std::string* out, const T& text) {
  *out += std::string_view(text);
}
template <Number T>
void Append(std::string* out, T number) {
  *out += std::to_string(number);
}

// Returns `value`, and for a NaN the positive one: a NaN's sign has no meaning, depends on how the NaN
// was computed, and would be written.
template <typename T>
const T& Written(const T& value) {
  return value;
}
template <std::floating_point T>
T Written(const T& value) {
  return value == value ? value : std::numeric_limits<T>::quiet_NaN();  // NOLINT(misc-redundant-expression)
}
}  // namespace internal

// Concatenates arguments of any type that can be written to a stream. If all are
// texts or integers, no stream is made.
template <typename... Args>
std::string StrCat(const Args&... args) {
  if constexpr (((internal::Text<Args> || internal::Number<Args>)&&...)) {
    std::string out;
    (internal::Append(&out, args), ...);
    return out;
  } else {
    std::ostringstream out;
    (out << ... << internal::Written(args));
    return out.str();
  }
}

// Joins the elements of `range`, written as to a stream: "a, b, c".
template <typename Range>
std::string StrJoin(const Range& range, std::string_view separator = ", ") {
  std::ostringstream out;
  bool first = true;
  for (const auto& item : range) {
    if (!first) out << separator;
    first = false;
    out << item;
  }
  return out.str();
}

std::vector<std::string> StrSplit(std::string_view text, char separator);
std::string_view StrTrim(std::string_view text);

// The whole text must be the number: empty text, stray characters, a number out of
// range, NaN and infinity give nullopt.
std::optional<int64_t> ParseInt(std::string_view text);
std::optional<double> ParseFiniteDouble(std::string_view text);
std::optional<bool> ParseBool(std::string_view text);  // 1/0, true/false, yes/no, on/off

// Returns the number of bytes of the code point at the beginning of `text` in well-formed UTF-8 (RFC 3629: no
// overlong forms, no surrogates, nothing above U+10FFFF), 0 if there is none.
size_t LengthOfCodePoint(std::string_view text);
bool IsUtf8(std::string_view text);
// Makes text from outside safe for a message: control characters are written as "\x1b"; so are all bytes that
// are not ASCII when the text is not UTF-8.
std::string StrPrintable(std::string_view text);

// Breaks `text` at spaces, so that no line is wider than `columns` unless a single word is. The first line
// begins at column `start`; the other lines begin with `indent` spaces. Newlines in the text stay.
std::string StrWrap(std::string_view text, size_t columns, size_t start = 0, size_t indent = 2);

// Wraps a text for people, so that it fits a terminal of 80 columns behind launch.py's prefix "[worker 99] ".
// WrapLogged leaves room on the first line for the time and severity of a log line.
std::string WrapMessage(std::string_view text);
std::string WrapLogged(std::string_view text);

// Returns a number with its noun: Counted(1, "worker") is "1 worker", Counted(2, "worker") "2 workers".
std::string Counted(int64_t number, std::string_view noun);

// Returns a size with its unit, to three digits: HumanBytes(1536) is "1.5 KiB".
std::string HumanBytes(uint64_t bytes);

}  // namespace sluice
