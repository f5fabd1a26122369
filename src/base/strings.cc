// Short texts: splitting, parsing numbers, checking UTF-8, and wrapping messages for a terminal. Pure
// functions without state, used by all libraries, on any thread. Parsing and formatting of integers do
// not depend on the locale (std::from_chars, std::to_string). Widths are counted in bytes, so text
// that is not ASCII is wrapped early.
#include "base/strings.h"

#include <array>
#include <charconv>
#include <cmath>
#include <iomanip>

namespace sluice {
namespace {

constexpr size_t kColumns = 80 - std::string_view("[worker 99] ").size();
constexpr size_t kLogPrefix = std::string_view("09:07:05.042 WARNING: ").size();

}  // namespace

std::vector<std::string> StrSplit(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string_view StrTrim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::optional<int64_t> ParseInt(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return value;
}

std::optional<double> ParseFiniteDouble(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.empty() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<bool> ParseBool(std::string_view text) {
  for (const char* yes : {"1", "true", "yes", "on"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"0", "false", "no", "off"}) {
    if (text == no) return false;
  }
  return std::nullopt;
}

std::string StrWrap(std::string_view text, size_t columns, size_t start, size_t indent) {
  std::string out;
  size_t column = start;
  bool at_start = true;
  for (const std::string& word : StrSplit(text, ' ')) {  // a word may contain newlines
    const size_t head = std::min(word.find('\n'), word.size());
    if (!at_start && column + 1 + head > columns) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (!at_start) {
      out += ' ';
      ++column;
    }
    out += word;
    column = head == word.size() ? column + head : word.size() - word.rfind('\n') - 1;
    at_start = false;
  }
  return out;
}

size_t LengthOfCodePoint(std::string_view text) {
  if (text.empty()) return 0;
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                                                      : 4;
  if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || text.size() < length) return 0;
  uint32_t point = length == 1 ? lead : lead & (0xFFu >> (length + 1));
  for (size_t k = 1; k < length; ++k) {
    const auto next = static_cast<unsigned char>(text[k]);
    if ((next & 0xC0) != 0x80) return 0;
    point = point << 6 | (next & 0x3F);
  }
  const bool too_long = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
  return too_long || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000) ? 0 : length;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = LengthOfCodePoint(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string StrPrintable(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const bool utf8 = IsUtf8(text);
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f && (byte < 0x80 || utf8)) {
      out += c;
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 0xf]};
    }
  }
  return out;
}

std::string WrapMessage(std::string_view text) {
  return StrWrap(text, kColumns);
}

std::string WrapLogged(std::string_view text) {
  return StrWrap(text, kColumns, kLogPrefix);
}

std::string Counted(int64_t number, std::string_view noun) {
  return StrCat(number, " ", noun, number == 1 ? "" : "s");
}

std::string HumanBytes(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::ostringstream out;
  out << std::setprecision(unit == 0 ? 20 : 3) << value << ' ' << kUnits[unit];
  return out.str();
}

}  // namespace sluice
