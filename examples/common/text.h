// Building and reading short texts.
#pragma once

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::examples {

// What can be written to a stream, one after another.
template <typename... Args>
std::string StrCat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

// "a, b, c"
std::string StrJoin(const std::vector<std::string>& texts);
std::vector<std::string> StrSplit(std::string_view text, char separator);
std::string_view StrTrim(std::string_view text);

// The whole text must be the number; nullopt for anything else: empty, stray characters, out of range, NaN.
std::optional<int64_t> ParseInt(std::string_view text);
std::optional<double> ParseFiniteDouble(std::string_view text);

// Whether it is well-formed (RFC 3629).
bool IsUtf8(std::string_view text);
// Text from outside, for a message: control characters, and all that is not ASCII where it is no UTF-8, as
// "\x1b".
std::string StrPrintable(std::string_view text);

// Broken at spaces into lines that fit a terminal of 80 columns behind launch.py's "[worker 99] ".
std::string WrapMessage(std::string_view text);

// (1, "worker") -> "1 worker", (2, "worker") -> "2 workers"
std::string Counted(int64_t number, std::string_view noun);

}  // namespace sluice::examples
