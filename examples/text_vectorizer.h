// The vocabulary and labels that turn texts into numbers, and their form in the metadata of parameter files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::examples {

inline constexpr int32_t kPadding = 0, kUnknown = 1, kFirstWord = 2;  // ids
inline constexpr int64_t kMaxVocabulary = int64_t{1} << 24;  // ids travel as floats, exact up to 2^24
inline constexpr int64_t kMaxTextLength = 65'536;

struct TextVectorizer {
  std::vector<std::string> words;   // ASCII letters in lower case; words[i] has the id kFirstWord + i
  std::vector<std::string> labels;  // labels[i] is the name of class i
  int64_t length = 0;               // words per text

  int64_t vocabulary() const { return kFirstWord + static_cast<int64_t>(words.size()); }
  bool operator==(const TextVectorizer&) const = default;
};

// Returns whether `c` may be part of a word: an ASCII letter, digit or apostrophe, or a byte beyond ASCII.
bool IsOfWord(char c);

// Returns three entries: "vocabulary", with the word of each id on its own line, "<pad>" and "<unk>" first;
// "labels", with the label of each class on its own line; and "text_length", a decimal number. A backslash is
// written as "\\"; in a text that is not well-formed UTF-8, a byte beyond ASCII is written as "\xe4".
std::map<std::string, std::string> MetadataOf(const TextVectorizer& vectorizer);
// Inverts MetadataOf. Throws Error with `file` and the entry in its message: kInvalidArgument if an entry is
// missing, kDataLoss if MetadataOf cannot have written it.
TextVectorizer VectorizerOf(const std::map<std::string, std::string>& metadata, const std::string& file);

}  // namespace sluice::examples
