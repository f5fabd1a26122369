// Helpers for short texts: joining and splitting, parsing numbers, checking UTF-8, wrapping messages.
//
// The functions are pure and locale-independent (std::from_chars, explicit ASCII ranges). Texts that come
// from files may hold any bytes: IsUtf8 and StrPrintable decide what of them may appear in a message.
#include "common/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace sluice::examples {

std::string StrJoin(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + text;
  return out;
}

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

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80                   ? 1
                          : lead >= 0xC2 && lead < 0xE0 ? 2
                          : lead >= 0xE0 && lead < 0xF0 ? 3
                                                        : 4;
    if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || text.size() - i < length) return false;
    uint32_t point = length == 1 ? lead : lead & (0xFFu >> (length + 1));
    for (size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xC0) != 0x80) return false;
      point = point << 6 | (next & 0x3F);
    }
    if ((length == 3 && point < 0x800) || (length == 4 && point < 0x10000) || point > 0x10FFFF ||
        (point >= 0xD800 && point < 0xE000))
      return false;
    i += length;
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
  constexpr size_t kColumns = 80 - std::string_view("[worker 99] ").size();
  std::string out;
  size_t column = 0;
  for (const std::string& word : StrSplit(text, ' ')) {
    const bool breaks = column + 1 + word.size() > kColumns;
    if (!out.empty()) out += breaks ? "\n  " : " ";
    column = (breaks && !out.empty() ? 2 : column + (out.empty() ? 0 : 1)) + word.size();
    out += word;
  }
  return out;
}

std::string Counted(int64_t number, std::string_view noun) {
  return StrCat(number, " ", noun, number == 1 ? "" : "s");
}

}  // namespace sluice::examples
