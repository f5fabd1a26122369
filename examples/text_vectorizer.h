// What turns texts into numbers, as a file of parameters keeps it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::examples {

inline constexpr int32_t kPadding = 0, kUnknown = 1, kFirstWord = 2;  // ids
inline constexpr int64_t kMaxVocabulary = int64_t{1} << 24;           // a float holds no more ids
inline constexpr int64_t kMaxTextLength = 65'536;

struct TextVectorizer {
  std::vector<std::string> words;   // in lower case (ASCII), whose ids are kFirstWord, kFirstWord + 1, ...
  std::vector<std::string> labels;  // of the classes 0, 1, ...
  int64_t length = 0;               // of a text in words

  int64_t vocabulary() const { return kFirstWord + static_cast<int64_t>(words.size()); }
  bool operator==(const TextVectorizer&) const = default;
};

// ASCII letters and digits, apostrophes and what is beyond ASCII.
bool IsOfWord(char c);

// "vocabulary", an id's word in each line, "<pad>" and "<unk>" first; "labels", a class's in each line;
// "text_length". A backslash is "\\", a byte that is no part of UTF-8 "\xe4".
std::map<std::string, std::string> MetadataOf(const TextVectorizer& vectorizer);
// Throws Error naming `file` and the entry: kInvalidArgument where one is missing, kDataLoss for what
// MetadataOf cannot have written.
TextVectorizer VectorizerOf(const std::map<std::string, std::string>& metadata, const std::string& file);

}  // namespace sluice::examples
