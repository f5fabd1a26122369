// Helpers to build and parse short texts.
#pragma once

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::examples {

// Returns the concatenation of `args`, each as operator<< writes it to a stream.
template <typename... Args>
std::string StrCat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

// Returns the texts with ", " between them: "a, b, c".
std::string StrJoin(const std::vector<std::string>& texts);
// Returns the parts between the separators; n separators make n + 1 parts, of which some may be empty.
std::vector<std::string> StrSplit(std::string_view text, char separator);
// Returns `text` without the spaces, tabs and line ends at both ends.
std::string_view StrTrim(std::string_view text);

// These return nullopt unless the whole text is a number: if it is empty, has other characters around the
// number, or the value is out of range, infinite or NaN.
std::optional<int64_t> ParseInt(std::string_view text);
std::optional<double> ParseFiniteDouble(std::string_view text);

// Returns whether `text` is well-formed UTF-8 (RFC 3629).
bool IsUtf8(std::string_view text);
// Makes a text from outside the program safe to print. Control characters become escapes such as "\x1b", and
// so do all bytes beyond ASCII if the text is not well-formed UTF-8.
std::string StrPrintable(std::string_view text);

// Breaks `text` at spaces into lines that fit a terminal of 80 columns after the prefix "[worker 99] " that
// tools/launch.py puts before each line. Lines after the first are indented by two spaces.
std::string WrapMessage(std::string_view text);

// Returns number and noun, with a plural s unless the number is 1: "1 worker", "2 workers".
std::string Counted(int64_t number, std::string_view noun);

}  // namespace sluice::examples
