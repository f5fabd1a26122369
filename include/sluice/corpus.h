// Text for language models: corpora, vocabularies, and data sets of sentences or of one long text.
//
//   const Corpus train = ReadCorpus("ptb.train.txt");
//   const Vocabulary vocabulary(train, {.min_count = 2});
//   const auto sentences = BucketedSentences(train, vocabulary);   // MXNet's BucketSentenceIter
//   const auto text = ContinuousText(train, vocabulary, {.rows = 32, .steps = 35});
//
// A model reads the token before, and predicts the next one: the label of a step is the id of its token, and
// its input is the id of the token before, at the beginning of a sentence that of the end of one.
//
// Thread safety: corpora and vocabularies are values; data sets are immutable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sluice/dataset.h"

namespace sluice {

enum class TextUnit : uint8_t {
  kWords,       // what spaces and tabs separate
  kCharacters,  // code points of UTF-8; a space is one, too
};

// A text of sentences, one a line, as in the files of the Penn Treebank that language models are compared on.
struct Corpus {
  std::vector<std::vector<std::string>> sentences;  // none is empty
  int64_t invalid_bytes = 0;  // bytes that are no UTF-8, each of which was read as U+FFFD
  int64_t num_tokens() const;
};
// Reads a file or a text; lines without tokens are left out. ReadCorpus throws Error(kNotFound) where there
// is no such file, Error(kInvalidArgument) for one without any token.
Corpus ReadCorpus(const std::string& path, TextUnit unit = TextUnit::kWords);
Corpus ParseCorpus(std::string_view text, TextUnit unit = TextUnit::kWords);

// Sentences of a small language that is generated from a seed, for machines without downloads. Verbs agree
// with their nouns in number across relative clauses, and objects suit verbs, so that a model which remembers
// gains over one that counts pairs of words. About 10 tokens a sentence, below 200 different ones.
Corpus SyntheticSentences(Subset subset, uint64_t seed = 0, int64_t count = -1);
inline constexpr int64_t kDefaultTrainSentences = 8'000;
inline constexpr int64_t kDefaultTestSentences = 1'000;

struct VocabularyOptions {
  int64_t min_count = 1;  // tokens that come less often are unknown
  int64_t max_size = 0;   // the most ids; rarer tokens are unknown; 0: no bound
};

// The ids of tokens: 0 is padding, 1 every unknown token, 2 the end of a sentence. Then come the tokens, the
// most frequent ones first, equally frequent ones in the order of their bytes.
class Vocabulary {
 public:
  static constexpr int32_t kPadding = 0, kUnknown = 1, kEnd = 2;

  // Has at most 2^24 ids, which floats hold exactly. Throws Error(kInvalidArgument) for options below 0, for
  // max_size from 1 to 3, which no token fits, and for a token that is empty or has a line end.
  explicit Vocabulary(const Corpus& corpus, const VocabularyOptions& options = {});
  // Has these tokens, which ToText has written. Throws Error(kDataLoss) for a text that ToText cannot have
  // written.
  static Vocabulary FromText(std::string_view text);

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }  // number of ids
  // Returns kUnknown for a token that it does not have, and for "<pad>". "<unk>" and "<eos>" are kUnknown and
  // kEnd, as in the Penn Treebank's files.
  int32_t Id(std::string_view token) const;
  const std::string& Token(int32_t id) const;  // throws Error(kInvalidArgument) if there is no such id
  std::string ToText() const;                  // a line for each token, in the order of their ids
  bool operator==(const Vocabulary& other) const { return tokens_ == other.tokens_; }

 private:
  Vocabulary() = default;
  void Add(std::string token);

  std::vector<std::string> tokens_;
  std::map<std::string, int32_t, std::less<>> ids_;
};

struct BucketOptions {
  // Steps of a sentence, ascending. A sentence of n tokens takes n + 1 steps, since its end is predicted,
  // too.
  std::vector<int64_t> buckets = {8, 16, 24, 32, 60};
};
struct BucketCounts {
  std::vector<int64_t> sentences;   // by bucket
  int64_t too_long = 0;             // sentences that are left out, since they fit no bucket
  int64_t tokens = 0, unknown = 0;  // labels, ends of sentences among them, and how many of them are unknown
};
// Returns a sample for each sentence that fits a bucket, of the shape [largest bucket], padded with kPadding,
// with labels of the same shape. Dataset::Bucket is its bucket. Throws Error(kInvalidArgument) for buckets
// that do not ascend from 1 on, and if no sentence fits. `counts` may be null.
std::shared_ptr<const Dataset> BucketedSentences(const Corpus& corpus, const Vocabulary& vocabulary,
                                                 const BucketOptions& options = {},
                                                 BucketCounts* counts = nullptr);
// Returns at most `count` buckets that fit all sentences, each with about as many sentences.
std::vector<int64_t> ChooseBuckets(const Corpus& corpus, int64_t count);

struct ContinuousTextOptions {
  int64_t rows = 32;   // pieces of the text that are read side by side: the batch of all workers
  int64_t steps = 35;  // steps of a sample
};
// Returns the text, sentences and their ends one after the other, cut into `rows` pieces of equal length.
// Sample rows * i + r has steps [i steps, (i + 1) steps) of piece r, and its labels the steps that follow
// them, both [steps]. A batch of `rows` samples in order goes on where the batch before ended: truncated
// back-propagation takes them without shuffling, with carried state (nn::RecurrentOptions::carries_state).
// What fills no row of steps is left out. Throws Error(kInvalidArgument) for options below 1 and for a text
// that is too short.
std::shared_ptr<const Dataset> ContinuousText(const Corpus& corpus, const Vocabulary& vocabulary,
                                              const ContinuousTextOptions& options = {});

}  // namespace sluice
