// Writes a TextVectorizer into the metadata of a parameter file, and reads it back.
//
// Three entries hold it: "vocabulary" and "labels", with one escaped text per line, and "text_length". The
// reader accepts exactly what the writer produces: Unescaped escapes its result again and compares, so each
// vectorizer has one encoding. The file may come from elsewhere, so everything is validated, and errors name
// the file, the entry and the line. Called by train_text on the main thread, and by a fuzz test.
#include "text_vectorizer.h"

#include <algorithm>
#include <optional>
#include <set>

#include "common/text.h"
#include "sluice/error.h"

namespace sluice::examples {
namespace {

constexpr char kVocabulary[] = "vocabulary", kLabels[] = "labels", kLength[] = "text_length";
constexpr std::string_view kPaddingName = "<pad>", kUnknownName = "<unk>";
constexpr std::string_view kHex = "0123456789abcdef";

std::string Escaped(std::string_view text) {
  const bool utf8 = IsUtf8(text);
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\\') {
      out += "\\\\";
    } else if (byte < 0x80 || utf8) {
      out += c;
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 0xf]};
    }
  }
  return out;
}

// Inverts Escaped. Returns nullopt for a text that Escaped never returns.
std::optional<std::string> Unescaped(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\') {
      out += text[at];
    } else if (text.substr(at, 2) == "\\\\") {
      out += text[at++];
    } else {
      if (at + 4 > text.size() || text[at + 1] != 'x') return std::nullopt;
      const size_t high = kHex.find(text[at + 2]), low = kHex.find(text[at + 3]);
      if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
      out += static_cast<char>(high << 4 | low);
      at += 3;
    }
  }
  if (Escaped(out) != text) return std::nullopt;
  return out;
}

bool IsWord(const std::string& text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return IsOfWord(c) && !(c >= 'A' && c <= 'Z'); });
}

bool IsLabel(const std::string& text) {
  return !text.empty() && StrTrim(text) == text && text.find_first_of("\t\n") == std::string::npos;
}

// Reads and validates the entries of one file's metadata.
class Reader {
 public:
  Reader(const std::map<std::string, std::string>& metadata, std::string file)
      : metadata_(metadata), file_(std::move(file)) {}

  const std::string& Entry(const char* name) const {
    const auto found = metadata_.find(name);
    if (found != metadata_.end()) return found->second;
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("'", file_, "' has no '", name,
                       "' in its metadata, so that nobody knows what its ids and classes stand for: it was "
                       "not saved by a run with texts of files; train on them and save anew"));
  }

  // Returns the lines of entry `name` that follow the `reserved` ones. They must all be valid and different.
  std::vector<std::string> Lines(const char* name, const std::vector<std::string_view>& reserved,
                                 bool (*is_valid)(const std::string&)) const {
    std::vector<std::string> lines = StrSplit(Entry(name), '\n');
    std::set<std::string_view> seen;
    for (size_t i = 0; i < std::max(lines.size(), reserved.size()); ++i) {
      const std::string text = i < lines.size() ? lines[i] : "";
      if (i < reserved.size()) {
        if (text != reserved[i]) ThrowInvalid(name, i, text, StrCat("in place of '", reserved[i], "'"));
        continue;
      }
      const auto line = Unescaped(text);
      if (!line || !is_valid(*line)) ThrowInvalid(name, i, text, "which no run writes there");
      lines[i] = *line;
      if (!seen.insert(lines[i]).second) ThrowInvalid(name, i, text, "for the second time");
    }
    lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(reserved.size()));
    return lines;
  }

  int64_t Length() const {
    const std::string& text = Entry(kLength);
    const auto length = ParseInt(text);
    if (!length || *length < 1 || *length > kMaxTextLength)
      ThrowInvalid(kLength, 0, text, StrCat("which is no number from 1 to ", kMaxTextLength));
    return *length;
  }

 private:
  [[noreturn]] void ThrowInvalid(const char* name, size_t line, const std::string& text,
                                 const std::string& why) const {
    throw Error(ErrorCode::kDataLoss, StrCat("'", file_, "': the metadata's '", name, "' has '",
                                             StrPrintable(text), "' in line ", line + 1, ", ", why));
  }

  const std::map<std::string, std::string>& metadata_;
  const std::string file_;
};

}  // namespace

bool IsOfWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '\'' ||
         static_cast<unsigned char>(c) >= 0x80;
}

std::map<std::string, std::string> MetadataOf(const TextVectorizer& vectorizer) {
  std::string vocabulary = StrCat(kPaddingName, "\n", kUnknownName), labels;
  for (const std::string& word : vectorizer.words) vocabulary += "\n" + Escaped(word);
  for (const std::string& label : vectorizer.labels) labels += (labels.empty() ? "" : "\n") + Escaped(label);
  return {{kVocabulary, std::move(vocabulary)},
          {kLabels, std::move(labels)},
          {kLength, std::to_string(vectorizer.length)}};
}

TextVectorizer VectorizerOf(const std::map<std::string, std::string>& metadata, const std::string& file) {
  const Reader reader(metadata, file);
  TextVectorizer vectorizer{reader.Lines(kVocabulary, {kPaddingName, kUnknownName}, IsWord),
                            reader.Lines(kLabels, {}, IsLabel), reader.Length()};
  if (vectorizer.vocabulary() > kMaxVocabulary) {
    throw Error(ErrorCode::kDataLoss, StrCat("'", file, "': the metadata's 'vocabulary' has ",
                                             vectorizer.vocabulary(), " words; at most ", kMaxVocabulary));
  }
  return vectorizer;
}

}  // namespace sluice::examples
