// Texts with labels from files of lines "label<TAB>text".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "sluice/dataset.h"
#include "text_vectorizer.h"

namespace sluice::examples {

struct TextOptions {
  int64_t vocabulary = 10'000;  // at most so many ids; at least 3
  int64_t length = 64;          // of a text in words: longer ones are cut, shorter ones padded; at least 1
};

// A sample is `length` ids: 0 is padding, 1 a word that is not in the vocabulary, which has the ids from 2
// on. A word is a run of ASCII letters, digits and apostrophes and of characters beyond ASCII; case of ASCII
// letters does not count. Labels are any texts.
struct Texts {
  std::shared_ptr<const ArrayDataset> train, test;
  TextVectorizer vectorizer;
};

// From `folder`/train.tsv and test.tsv; lines end with \n or \r\n; empty ones and a UTF-8 byte order mark are
// skipped. The vocabulary is the `vocabulary` - 2 most frequent words of the training texts, the most
// frequent first; classes are the training texts' labels in the order of their bytes. Throws Error:
// kNotFound; kDataLoss for a line without a label, or whose label no training text has, naming file and line.
Texts LoadTexts(const std::string& folder, const TextOptions& options);
// As LoadTexts, of what both files hold; `folder` is for errors.
Texts ParseTexts(std::string_view training, std::string_view testing, const std::string& folder,
                 const TextOptions& options);

// What a network was trained with, so that other texts are the same numbers to it.
struct SavedVectorizer {
  TextVectorizer vectorizer;
  std::string file;  // that it comes from, for errors
};
// As LoadTexts, but with the vocabulary, labels and length of `saved`: a label that it lacks is kDataLoss.
// Without `trains` train.tsv is not read and need not be there; `train` is `test` then.
Texts LoadTexts(const std::string& folder, const SavedVectorizer& saved, bool trains);
// As LoadTexts, of what both files hold.
Texts ParseTexts(std::string_view training, std::string_view testing, const std::string& folder,
                 const SavedVectorizer& saved);

}  // namespace sluice::examples
