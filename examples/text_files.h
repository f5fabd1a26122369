// Reads labelled texts from files with lines "label<TAB>text".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "sluice/dataset.h"
#include "text_vectorizer.h"

namespace sluice::examples {

struct TextOptions {
  int64_t vocabulary = 10'000;  // upper bound of the number of ids; at least 3
  int64_t length = 64;          // words per text: longer texts are cut, shorter ones padded; at least 1
};

// A sample has `length` ids. Id 0 is padding, id 1 stands for every word that is not in the vocabulary, and
// the words of the vocabulary have the ids from 2 on. A word is a sequence of ASCII letters, digits,
// apostrophes and characters beyond ASCII; ASCII letters are read as lower case. A label may be any text.
struct Texts {
  std::shared_ptr<const ArrayDataset> train, test;
  TextVectorizer vectorizer;
};

// Reads `folder`/train.tsv and `folder`/test.tsv. Lines end with \n or \r\n; empty lines and a UTF-8 byte
// order mark are skipped. The vocabulary is the `vocabulary` - 2 most frequent words of the training texts,
// the most frequent first; the classes are the labels of the training texts in bytewise order. Throws Error:
// as ReadFile (common/files.h) if a file cannot be read; kDataLoss, with file and line, for a line without a
// label and for a test label that no training text has; kResourceExhausted if memory runs out.
Texts LoadTexts(const std::string& folder, const TextOptions& options);
// Does the same with the contents of both files; `folder` only appears in errors.
Texts ParseTexts(std::string_view training, std::string_view testing, const std::string& folder,
                 const TextOptions& options);

// The vectorizer that a network was trained with. A later run must use the same one, so that each word keeps
// its id and each label its class.
struct SavedVectorizer {
  TextVectorizer vectorizer;
  std::string file;  // the file of parameters that it was read from, for errors
};
// As above, but with the vocabulary, labels and text length of `saved`; a label that `saved` lacks is
// kDataLoss. If `trains` is false, train.tsv is not read and need not exist, and Texts::train equals test.
Texts LoadTexts(const std::string& folder, const SavedVectorizer& saved, bool trains);
// Does the same with the contents of both files; `folder` only appears in errors.
Texts ParseTexts(std::string_view training, std::string_view testing, const std::string& folder,
                 const SavedVectorizer& saved);

}  // namespace sluice::examples
