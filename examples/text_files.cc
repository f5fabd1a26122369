// Reads train.tsv and test.tsv, builds the vocabulary, and encodes each text as a row of word ids.
//
// Lines and words are views into the file's contents, which the caller keeps for as long as it uses them.
// Numbers of lines in errors count from 1 and include empty lines. The same rules (IsOfWord, Lower) split
// training texts and test texts into words, so a saved vocabulary gives the same ids in a later run. Called
// by train_text on the main thread; tests/fuzz feeds ParseTexts arbitrary bytes.
#include "text_files.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "common/files.h"
#include "common/text.h"
#include "sluice/error.h"

namespace sluice::examples {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{4} << 30;
constexpr char kTrainFile[] = "train.tsv", kTestFile[] = "test.tsv";

struct Line {
  int64_t number;  // from 1 on
  std::string_view label, text;
};

struct TextFile {
  const std::string path;
  const std::string_view contents;

  [[noreturn]] void ThrowInvalid(int64_t line, const std::string& why) const {
    throw Error(ErrorCode::kDataLoss, StrCat("'", path, "', line ", line, " ", why));
  }

  std::vector<Line> Lines() const {
    std::vector<Line> lines;
    std::string_view rest = contents;
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (rest.starts_with(kByteOrderMark)) rest.remove_prefix(kByteOrderMark.size());
    for (int64_t number = 1; !rest.empty(); ++number) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.empty()) continue;
      const size_t tab = line.find('\t');
      if (tab == std::string_view::npos)
        ThrowInvalid(number, "has no tab; expected a label, a tab and a text");
      const std::string_view label = StrTrim(line.substr(0, tab));
      if (label.empty()) ThrowInvalid(number, "has no label before the tab");
      lines.push_back({number, label, line.substr(tab + 1)});
    }
    if (lines.empty()) throw Error(ErrorCode::kDataLoss, StrCat("'", path, "' has no texts"));
    return lines;
  }
};

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Calls `take` with each word of `text`, in lower case, until it returns false or the text ends.
void ForWords(std::string_view text, const std::function<bool(const std::string& word)>& take) {
  std::string word;
  for (size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && IsOfWord(text[at])) {
      word += Lower(text[at]);
    } else if (!word.empty()) {
      if (!take(word)) return;
      word.clear();
    }
  }
}

std::vector<std::string> MostFrequent(const std::vector<Line>& lines, int64_t count) {
  std::map<std::string, int64_t> seen;
  for (const Line& line : lines)
    ForWords(line.text, [&](const std::string& word) { return ++seen[word] > 0; });
  std::vector<std::pair<std::string, int64_t>> words(seen.begin(), seen.end());
  std::stable_sort(words.begin(), words.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (static_cast<int64_t>(words.size()) > count) words.resize(static_cast<size_t>(count));
  std::vector<std::string> most;
  for (auto& [word, times] : words) most.push_back(std::move(word));
  return most;
}

std::vector<std::string> LabelsOf(const std::vector<Line>& lines) {
  std::set<std::string_view> labels;
  for (const Line& line : lines) labels.insert(line.label);
  return {labels.begin(), labels.end()};
}

class Encoder {
 public:
  // `why_unknown` is the end of the error message for a label that `vectorizer` does not have.
  Encoder(const TextVectorizer& vectorizer, std::string why_unknown)
      : length_(vectorizer.length), why_unknown_(std::move(why_unknown)) {
    for (const std::string& word : vectorizer.words)
      ids_.emplace(word, kFirstWord + static_cast<int32_t>(ids_.size()));
    for (const std::string& label : vectorizer.labels)
      classes_.emplace(label, static_cast<int32_t>(classes_.size()));
  }

  std::shared_ptr<const ArrayDataset> Encode(const TextFile& file, const std::vector<Line>& lines) const {
    const auto words = static_cast<size_t>(length_);
    std::vector<float> samples;
    try {
      samples.assign(lines.size() * words, kPadding);
    } catch (const std::exception&) {  // std::bad_alloc, or std::length_error
      throw Error(ErrorCode::kResourceExhausted,
                  StrCat("no memory for ", lines.size(), " texts of ", words, " words ('", file.path,
                         "'); shorten them (--text-length)"));
    }
    std::vector<int32_t> labels;
    for (const Line& line : lines) {
      EncodeText(line.text, std::span(samples).subspan(labels.size() * words, words));
      const auto label = classes_.find(line.label);
      if (label == classes_.end())
        file.ThrowInvalid(line.number,
                          StrCat("has the label '", StrPrintable(line.label), "', ", why_unknown_));
      labels.push_back(label->second);
    }
    return std::make_shared<ArrayDataset>(Shape{length_}, std::move(samples), std::move(labels),
                                          static_cast<int64_t>(classes_.size()));
  }

 private:
  void EncodeText(std::string_view text, std::span<float> sample) const {
    size_t at = 0;
    ForWords(text, [&](const std::string& word) {
      const auto id = ids_.find(word);
      sample[at] = static_cast<float>(id == ids_.end() ? kUnknown : id->second);
      return ++at < sample.size();
    });
  }

  const int64_t length_;
  const std::string why_unknown_;
  std::unordered_map<std::string, int32_t> ids_;
  std::map<std::string, int32_t, std::less<>> classes_;
};

TextFile FileIn(const std::string& folder, const char* name, std::string_view contents) {
  return {(std::filesystem::path(folder) / name).string(), contents};
}

std::string Read(const std::string& folder, const char* name) {
  return ReadFile((std::filesystem::path(folder) / name).string(), kMaxFileBytes);
}

Encoder EncoderOf(const SavedVectorizer& saved) {
  return {saved.vectorizer, StrCat("which the network of '", saved.file,
                                   "' does not know: remove the line, or train on texts with this label")};
}

}  // namespace

Texts ParseTexts(std::string_view training, std::string_view testing, const std::string& folder,
                 const TextOptions& options) {
  const TextFile train = FileIn(folder, kTrainFile, training), test = FileIn(folder, kTestFile, testing);
  const std::vector<Line> lines = train.Lines();
  TextVectorizer vectorizer{MostFrequent(lines, options.vocabulary - kFirstWord), LabelsOf(lines),
                            options.length};
  const Encoder encoder(vectorizer, "which no training text has");
  return {encoder.Encode(train, lines), encoder.Encode(test, test.Lines()), std::move(vectorizer)};
}

Texts ParseTexts(std::string_view training, std::string_view testing, const std::string& folder,
                 const SavedVectorizer& saved) {
  const TextFile train = FileIn(folder, kTrainFile, training), test = FileIn(folder, kTestFile, testing);
  const Encoder encoder = EncoderOf(saved);
  return {encoder.Encode(train, train.Lines()), encoder.Encode(test, test.Lines()), saved.vectorizer};
}

Texts LoadTexts(const std::string& folder, const TextOptions& options) {
  const std::string train = Read(folder, kTrainFile), test = Read(folder, kTestFile);
  return ParseTexts(train, test, folder, options);
}

Texts LoadTexts(const std::string& folder, const SavedVectorizer& saved, bool trains) {
  const std::string testing = Read(folder, kTestFile);
  if (trains) return ParseTexts(Read(folder, kTrainFile), testing, folder, saved);
  const TextFile file = FileIn(folder, kTestFile, testing);
  const auto test = EncoderOf(saved).Encode(file, file.Lines());
  return {test, test, saved.vectorizer};
}

}  // namespace sluice::examples
