// Corpora: files and texts as sentences of tokens. What is no UTF-8 is read as U+FFFD, byte by byte, and
// counted. Programs call this before they train.
#include "sluice/corpus.h"

#include <utility>

#include "base/file.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr uint64_t kMaxCorpusBytes = uint64_t{4} << 30;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Returns `text` with each byte that is no UTF-8 replaced, and adds their number to `invalid_bytes`.
std::string Replaced(std::string_view text, int64_t* invalid_bytes) {
  std::string out;
  while (!text.empty()) {
    const size_t length = LengthOfCodePoint(text);
    *invalid_bytes += length == 0;
    out += length == 0 ? kReplacement : text.substr(0, length);
    text.remove_prefix(std::max<size_t>(1, length));
  }
  return out;
}

std::vector<std::string> Words(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r\f\v";
  std::vector<std::string> words;
  for (size_t begin = line.find_first_not_of(kSpace); begin != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(kSpace, begin), line.size());
    words.emplace_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(kSpace, end);
  }
  return words;
}

// `line` is UTF-8.
std::vector<std::string> Characters(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  std::vector<std::string> characters;
  while (!line.empty()) {
    const size_t length = LengthOfCodePoint(line);
    characters.emplace_back(line.substr(0, length));
    line.remove_prefix(length);
  }
  return characters;
}

}  // namespace

int64_t Corpus::num_tokens() const {
  int64_t tokens = 0;
  for (const auto& sentence : sentences) tokens += static_cast<int64_t>(sentence.size());
  return tokens;
}

Corpus ParseCorpus(std::string_view text, TextUnit unit) {
  Corpus corpus;
  const std::string valid = IsUtf8(text) ? std::string() : Replaced(text, &corpus.invalid_bytes);
  if (corpus.invalid_bytes > 0) text = valid;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    std::vector<std::string> tokens = unit == TextUnit::kWords ? Words(line) : Characters(line);
    if (!tokens.empty()) corpus.sentences.push_back(std::move(tokens));
  }
  return corpus;
}

Corpus ReadCorpus(const std::string& path, TextUnit unit) {
  const Buffer contents = ReadFile(path, kMaxCorpusBytes).OrThrow();
  Corpus corpus = ParseCorpus(AsText(contents.bytes()), unit);
  if (corpus.sentences.empty())
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("'", path, "' has no token: it is no text to learn from"));
  return corpus;
}

}  // namespace sluice
