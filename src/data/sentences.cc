// Data sets of language models: sentences in buckets, and one long text in rows. Both hold ids as int32 and
// make samples on the DataLoader's threads. The input of a step is the token before; so a sentence, and each
// row of a text, begins with the end of one.
#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "data/required.h"
#include "sluice/corpus.h"
#include "sluice/error.h"

namespace sluice {
namespace {

[[noreturn]] void ThrowInvalid(std::string_view call, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, StrCat(call, ": ", why));
}

// Returns the ids of a sentence and of its end.
std::vector<int32_t> Encoded(const std::vector<std::string>& sentence, const Vocabulary& vocabulary) {
  std::vector<int32_t> ids;
  for (const std::string& token : sentence) ids.push_back(vocabulary.Id(token));
  ids.push_back(Vocabulary::kEnd);
  return ids;
}

// Writes ids to the front of `to`, and padding behind them.
void WritePadded(std::span<const int32_t> ids, std::span<float> to) {
  const auto end = std::ranges::copy(ids, to.begin()).out;
  std::fill(end, to.end(), static_cast<float>(Vocabulary::kPadding));
}

class SentenceDataset final : public Dataset {
 public:
  struct Sentence {
    std::vector<int32_t> ids;  // the labels
    int64_t bucket;
  };
  SentenceDataset(std::vector<Sentence> sentences, int64_t steps)
      : sentences_(std::move(sentences)), shape_{steps} {}

  int64_t size() const override { return static_cast<int64_t>(sentences_.size()); }
  const Shape& sample_shape() const override { return shape_; }
  int64_t num_classes() const override { return 0; }  // labels are arrays
  std::optional<Shape> label_shape() const override { return shape_; }
  std::optional<int64_t> Bucket(int64_t index) const override { return At(index).bucket; }
  int32_t Get(int64_t index, std::span<float> sample) const override {
    RequireRoom("BucketedSentences", sample.size(), static_cast<size_t>(shape_.size()));
    const std::vector<int32_t>& ids = At(index).ids;
    sample[0] = static_cast<float>(Vocabulary::kEnd);
    WritePadded(std::span(ids).first(ids.size() - 1), sample.subspan(1));
    return 0;
  }
  void GetLabel(int64_t index, std::span<float> label) const override {
    RequireRoom("BucketedSentences", label.size(), static_cast<size_t>(shape_.size()));
    WritePadded(At(index).ids, label);
  }

 private:
  const Sentence& At(int64_t index) const {
    RequireIndex("BucketedSentences", index, size());
    return sentences_[static_cast<size_t>(index)];
  }

  const std::vector<Sentence> sentences_;
  const Shape shape_;
};

class TextDataset final : public Dataset {
 public:
  TextDataset(std::vector<int32_t> ids, int64_t rows, int64_t steps, int64_t samples_of_row)
      : ids_(std::move(ids)), rows_(rows), steps_(steps), samples_of_row_(samples_of_row), shape_{steps} {}

  int64_t size() const override { return rows_ * samples_of_row_; }
  const Shape& sample_shape() const override { return shape_; }
  int64_t num_classes() const override { return 0; }  // labels are arrays
  std::optional<Shape> label_shape() const override { return shape_; }
  int32_t Get(int64_t index, std::span<float> sample) const override {
    std::ranges::copy(Piece(index, 0, sample.size()), sample.begin());
    return 0;
  }
  void GetLabel(int64_t index, std::span<float> label) const override {
    std::ranges::copy(Piece(index, 1, label.size()), label.begin());
  }

 private:
  // Returns the steps of a sample, `ahead` tokens later.
  std::span<const int32_t> Piece(int64_t index, int64_t ahead, size_t room) const {
    RequireIndex("ContinuousText", index, size());
    RequireRoom("ContinuousText", room, static_cast<size_t>(steps_));
    const int64_t row = index % rows_, piece = index / rows_;
    const int64_t begin = (row * samples_of_row_ + piece) * steps_ + ahead;
    return std::span(ids_).subspan(static_cast<size_t>(begin), static_cast<size_t>(steps_));
  }

  const std::vector<int32_t> ids_;  // the end of a sentence, then the text
  const int64_t rows_, steps_, samples_of_row_;
  const Shape shape_;
};

void RequireBuckets(const std::vector<int64_t>& buckets) {
  const bool ascend = std::ranges::adjacent_find(buckets, std::greater_equal()) == buckets.end();
  if (buckets.empty() || buckets.front() < 1 || !ascend) {
    ThrowInvalid("BucketedSentences",
                 StrCat("the buckets are [", StrJoin(buckets), "]; they must ascend, from 1 on"));
  }
}

}  // namespace

std::shared_ptr<const Dataset> BucketedSentences(const Corpus& corpus, const Vocabulary& vocabulary,
                                                 const BucketOptions& options, BucketCounts* counts) {
  RequireBuckets(options.buckets);
  BucketCounts found{.sentences = std::vector<int64_t>(options.buckets.size())};
  std::vector<SentenceDataset::Sentence> sentences;
  for (const auto& sentence : corpus.sentences) {
    std::vector<int32_t> ids = Encoded(sentence, vocabulary);
    const auto bucket = std::ranges::lower_bound(options.buckets, static_cast<int64_t>(ids.size()));
    if (bucket == options.buckets.end()) {
      ++found.too_long;
      continue;
    }
    ++found.sentences[static_cast<size_t>(bucket - options.buckets.begin())];
    found.tokens += static_cast<int64_t>(ids.size());
    found.unknown += std::ranges::count(ids, Vocabulary::kUnknown);
    sentences.push_back({std::move(ids), *bucket});
  }
  if (sentences.empty()) {
    ThrowInvalid("BucketedSentences",
                 StrCat("none of the ", corpus.sentences.size(), " sentences fits a bucket; the largest has ",
                        options.buckets.back(), " steps, one of which is for the end of the sentence"));
  }
  if (counts != nullptr) *counts = std::move(found);
  return std::make_shared<SentenceDataset>(std::move(sentences), options.buckets.back());
}

std::vector<int64_t> ChooseBuckets(const Corpus& corpus, int64_t count) {
  if (count < 1)
    ThrowInvalid("ChooseBuckets", StrCat("the number of buckets is ", count, "; it must be at least 1"));
  if (corpus.sentences.empty()) ThrowInvalid("ChooseBuckets", "there are no sentences");
  std::vector<int64_t> steps;
  for (const auto& sentence : corpus.sentences) steps.push_back(static_cast<int64_t>(sentence.size()) + 1);
  std::ranges::sort(steps);
  std::vector<int64_t> buckets;
  const auto n = static_cast<int64_t>(steps.size());
  count = std::min(count, n);
  for (int64_t i = 1; i <= count; ++i) {
    const int64_t bucket = steps[static_cast<size_t>((i * n + count - 1) / count - 1)];
    if (buckets.empty() || bucket > buckets.back()) buckets.push_back(bucket);
  }
  return buckets;
}

std::shared_ptr<const Dataset> ContinuousText(const Corpus& corpus, const Vocabulary& vocabulary,
                                              const ContinuousTextOptions& options) {
  if (options.rows < 1 || options.steps < 1) {
    ThrowInvalid("ContinuousText", StrCat("there are ", options.rows, " rows of ", options.steps,
                                          " steps; both must be at least 1"));
  }
  std::vector<int32_t> ids = {Vocabulary::kEnd};
  for (const auto& sentence : corpus.sentences) {
    const std::vector<int32_t> encoded = Encoded(sentence, vocabulary);
    ids.insert(ids.end(), encoded.begin(), encoded.end());
  }
  const auto labels = static_cast<int64_t>(ids.size()) - 1;
  const int64_t samples_of_row = labels / options.rows / options.steps;
  if (samples_of_row == 0) {
    ThrowInvalid("ContinuousText", StrCat("a text of ", labels, " tokens does not fill ", options.rows,
                                          " rows of ", options.steps, " steps; lower one of them"));
  }
  return std::make_shared<TextDataset>(std::move(ids), options.rows, options.steps, samples_of_row);
}

}  // namespace sluice
