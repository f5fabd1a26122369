#include "text_files.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "base/no_memory.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::examples {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{4} << 30;
constexpr char kTrainFile[] = "train.tsv", kTestFile[] = "test.tsv";
constexpr int32_t kUnknown = 1;
constexpr int32_t kFirstWord = 2;

struct Line {
  int64_t number;  // from 1 on
  std::string_view label, text;
};

struct TextFile {
  const std::string path;
  const std::string_view contents;

  [[noreturn]] void Refuse(int64_t line, const std::string& why) const {
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
      if (tab == std::string_view::npos) Refuse(number, "has no tab; expected a label, a tab and a text");
      const std::string_view label = StrTrim(line.substr(0, tab));
      if (label.empty()) Refuse(number, "has no label before the tab");
      lines.push_back({number, label, line.substr(tab + 1)});
    }
    if (lines.empty()) throw Error(ErrorCode::kDataLoss, StrCat("'", path, "' has no texts"));
    return lines;
  }
};

bool IsOfWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '\'' ||
         static_cast<unsigned char>(c) >= 0x80;
}

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Until `take` has had enough and returns false.
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

using Ids = std::unordered_map<std::string, int32_t>;

Ids MostFrequent(const std::vector<Line>& lines, int64_t count) {
  std::map<std::string, int64_t> seen;
  for (const Line& line : lines)
    ForWords(line.text, [&](const std::string& word) { return ++seen[word] > 0; });
  std::vector<std::pair<std::string, int64_t>> words(seen.begin(), seen.end());
  std::stable_sort(words.begin(), words.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (static_cast<int64_t>(words.size()) > count) words.resize(static_cast<size_t>(count));
  Ids ids;
  for (const auto& [word, times] : words) ids.emplace(word, kFirstWord + static_cast<int32_t>(ids.size()));
  return ids;
}

std::map<std::string_view, int32_t> ClassesOf(const std::vector<Line>& lines) {
  std::map<std::string_view, int32_t> classes;
  for (const Line& line : lines) classes.emplace(line.label, 0);
  int32_t next = 0;
  for (auto& [label, number] : classes) number = next++;
  return classes;
}

std::shared_ptr<const ArrayDataset> Encode(const TextFile& file, const std::vector<Line>& lines,
                                           const Ids& ids, const std::map<std::string_view, int32_t>& classes,
                                           int64_t length) {
  const auto words = static_cast<size_t>(length);
  auto samples = WithMemoryFor([&] { return std::vector<float>(lines.size() * words); },  // padding is 0
                               lines.size(), " texts of ", words, " words ('", file.path,
                               "'); shorten them (--text-length)");
  std::vector<int32_t> labels;
  for (const Line& line : lines) {
    const auto label = classes.find(line.label);
    if (label == classes.end())
      file.Refuse(line.number,
                  StrCat("has the label '", StrPrintable(line.label), "', which no training text has"));
    const auto sample = std::span(samples).subspan(labels.size() * words, words);
    size_t at = 0;
    ForWords(line.text, [&](const std::string& word) {
      const auto id = ids.find(word);
      sample[at] = static_cast<float>(id == ids.end() ? kUnknown : id->second);
      return ++at < sample.size();
    });
    labels.push_back(label->second);
  }
  return std::make_shared<ArrayDataset>(Shape{length}, std::move(samples), std::move(labels),
                                        static_cast<int64_t>(classes.size()));
}

}  // namespace

Texts ParseTexts(std::string_view training, std::string_view testing, const std::string& folder,
                 const TextOptions& options) {
  const std::filesystem::path place = folder;
  const TextFile train{(place / kTrainFile).string(), training}, test{(place / kTestFile).string(), testing};
  const std::vector<Line> lines = train.Lines();
  const Ids ids = MostFrequent(lines, options.vocabulary - kFirstWord);
  const auto classes = ClassesOf(lines);
  return {Encode(train, lines, ids, classes, options.length),
          Encode(test, test.Lines(), ids, classes, options.length),
          kFirstWord + static_cast<int64_t>(ids.size())};
}

Texts LoadTexts(const std::string& folder, const TextOptions& options) {
  const std::filesystem::path place = folder;
  const auto read = [&](const char* name) {
    return ReadFile((place / name).string(), kMaxFileBytes).OrThrow();
  };
  const Buffer train = read(kTrainFile), test = read(kTestFile);
  return ParseTexts(AsText(train.bytes()), AsText(test.bytes()), folder, options);
}

}  // namespace sluice::examples
