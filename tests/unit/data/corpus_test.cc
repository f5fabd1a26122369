// Tests sluice/corpus.h: texts as tokens, vocabularies, and the data sets of language models.
#include "sluice/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "sluice/data_loader.h"
#include "unit/data/temporary_folder.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(CorpusTest, HasASentenceForEachLineWithTokens) {
  const Corpus corpus = ParseCorpus(" the cat  sat\r\n\n\t\nit ran");
  EXPECT_THAT(corpus.sentences, ElementsAre(ElementsAre("the", "cat", "sat"), ElementsAre("it", "ran")));
  EXPECT_EQ(corpus.num_tokens(), 5);
  EXPECT_EQ(corpus.invalid_bytes, 0);
  EXPECT_THAT(ParseCorpus("").sentences, IsEmpty());
}

TEST(CorpusTest, CharactersAreCodePoints) {
  EXPECT_THAT(ParseCorpus("a b\r\n\xC3\xA4\xE2\x82\xAC", TextUnit::kCharacters).sentences,
              ElementsAre(ElementsAre("a", " ", "b"), ElementsAre("\xC3\xA4", "\xE2\x82\xAC")));
}

TEST(CorpusTest, WhatIsNoUtf8IsReplacedAndCounted) {
  const Corpus corpus = ParseCorpus("a\xFF b\xC3\n\xE2\x82 c");
  EXPECT_EQ(corpus.invalid_bytes, 4);
  EXPECT_THAT(corpus.sentences, ElementsAre(ElementsAre("a\xEF\xBF\xBD", "b\xEF\xBF\xBD"),
                                            ElementsAre("\xEF\xBF\xBD\xEF\xBF\xBD", "c")));
}

TEST(CorpusTest, AFileThatIsMissingOrEmptyIsRefused) {
  const TemporaryFolder folder;
  const std::string empty = folder.path("empty.txt");
  std::ofstream(empty) << "\n  \n";
  EXPECT_THAT(ErrorOf(ErrorCode::kNotFound, [&] { ReadCorpus(folder.path("none.txt")); }),
              HasSubstr("none.txt"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { ReadCorpus(empty); }), HasSubstr("has no token"));
}

TEST(SyntheticSentencesTest, AreAFunctionOfSeedAndIndex) {
  const Corpus some = SyntheticSentences(Subset::kTrain, 3, 50),
               more = SyntheticSentences(Subset::kTrain, 3, 60);
  for (size_t i = 0; i < 50; ++i) EXPECT_EQ(some.sentences[i], more.sentences[i]);
  EXPECT_NE(SyntheticSentences(Subset::kTest, 3, 50).sentences, some.sentences);
  const Corpus all = SyntheticSentences(Subset::kTrain);
  EXPECT_THAT(all.sentences, SizeIs(kDefaultTrainSentences));
  EXPECT_LT(Vocabulary(all).size(), 200);
  const double mean = static_cast<double>(all.num_tokens()) / static_cast<double>(all.sentences.size());
  EXPECT_GT(mean, 7);
  EXPECT_LT(mean, 14);
}

TEST(VocabularyTest, FrequentTokensComeFirst) {
  const Vocabulary vocabulary(ParseCorpus("b a c\na c\nc z y"));
  EXPECT_EQ(vocabulary.size(), 8);
  EXPECT_EQ(vocabulary.Token(3), "c");
  EXPECT_EQ(vocabulary.Token(4), "a");
  EXPECT_EQ(vocabulary.Token(5), "b");  // as often as y and z
  EXPECT_EQ(vocabulary.Id("z"), 7);
  EXPECT_EQ(vocabulary.Id("none"), Vocabulary::kUnknown);
  EXPECT_EQ(vocabulary.Id("<eos>"), Vocabulary::kEnd);
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { vocabulary.Token(8); }), HasSubstr("no token 8"));
}

TEST(VocabularyTest, RareTokensAreUnknown) {
  const Corpus corpus = ParseCorpus("a a a b b c <unk>");
  EXPECT_EQ(Vocabulary(corpus, {.min_count = 2}).size(), 5);
  EXPECT_EQ(Vocabulary(corpus, {.min_count = 2}).Id("c"), Vocabulary::kUnknown);
  EXPECT_EQ(Vocabulary(corpus, {.max_size = 4}).Id("b"), Vocabulary::kUnknown);
  EXPECT_EQ(Vocabulary(corpus).Id("<unk>"), Vocabulary::kUnknown);
  EXPECT_EQ(Vocabulary(corpus).Id("<pad>"), Vocabulary::kUnknown);
  for (const char* token : {"", "a\nb"}) {
    EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { Vocabulary(Corpus{.sentences = {{token}}}); }),
                HasSubstr("is empty or has a line end"));
  }
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { Vocabulary(corpus, {.max_size = 3}); }),
              HasSubstr("max_size is 3"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { Vocabulary(corpus, {.min_count = -1}); }),
              HasSubstr("min_count is -1"));
}

TEST(VocabularyTest, ReturnsFromItsText) {
  const Vocabulary vocabulary(SyntheticSentences(Subset::kTrain, 0, 100));
  EXPECT_EQ(Vocabulary::FromText(vocabulary.ToText()), vocabulary);
  for (const char* text : {"", "a", "<pad>\n<unk>\n", "<pad>\n<unk>\n<eos>\na\na\n",
                           "<pad>\n<unk>\n<eos>\n\n", "<pad>\n<eos>\n<unk>\n", "<pad>\n<unk>\n<eos>"}) {
    EXPECT_THAT(ErrorOf(ErrorCode::kDataLoss, [&] { Vocabulary::FromText(text); }),
                HasSubstr("no vocabulary"))
        << text;
  }
}

std::vector<float> SampleOf(const Dataset& data, int64_t index) {
  std::vector<float> sample(static_cast<size_t>(data.sample_shape().size()));
  data.Get(index, sample);
  return sample;
}
std::vector<float> LabelOf(const Dataset& data, int64_t index) {
  std::vector<float> label(static_cast<size_t>(data.label_shape()->size()));
  data.GetLabel(index, label);
  return label;
}

TEST(BucketedSentencesTest, EveryStepPredictsTheNextToken) {
  const Corpus corpus = ParseCorpus("a b\nb\na a b b x b a");
  const Vocabulary vocabulary(corpus, {.min_count = 2});  // b 3, a 4
  BucketCounts counts;
  const auto data = BucketedSentences(corpus, vocabulary, {.buckets = {2, 5}}, &counts);
  ASSERT_EQ(data->size(), 2);
  EXPECT_THAT(SampleOf(*data, 0), ElementsAre(2, 4, 3, 0, 0));
  EXPECT_THAT(LabelOf(*data, 0), ElementsAre(4, 3, 2, 0, 0));
  EXPECT_EQ(data->Bucket(0), 5);
  EXPECT_THAT(SampleOf(*data, 1), ElementsAre(2, 3, 0, 0, 0));
  EXPECT_EQ(data->Bucket(1), 2);
  EXPECT_EQ(data->num_classes(), 0);  // labels are arrays
  EXPECT_THAT(counts.sentences, ElementsAre(1, 1));
  EXPECT_EQ(counts.too_long, 1);
  EXPECT_EQ(counts.tokens, 5);
  EXPECT_EQ(counts.unknown, 0);
}

TEST(BucketedSentencesTest, WrongBucketsAreRefused) {
  const Corpus corpus = ParseCorpus("a b c");
  const Vocabulary vocabulary(corpus);
  for (const std::vector<int64_t>& buckets : {std::vector<int64_t>{}, {0, 4}, {4, 4}, {8, 4}}) {
    EXPECT_THAT(
        ErrorOf(ErrorCode::kInvalidArgument, [&] { BucketedSentences(corpus, vocabulary, {buckets}); }),
        HasSubstr("they must ascend, from 1 on"));
  }
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { BucketedSentences(corpus, vocabulary, {{3}}); }),
              HasSubstr("none of the 1 sentences fits a bucket; the largest has 3 steps"));
}

TEST(ChooseBucketsTest, HaveAboutAsManySentences) {
  Corpus corpus;
  for (size_t length = 1; length <= 100; ++length) corpus.sentences.emplace_back(length, "a");
  EXPECT_THAT(ChooseBuckets(corpus, 4), ElementsAre(26, 51, 76, 101));
  EXPECT_THAT(ChooseBuckets(ParseCorpus("a b\na b\nc d"), 4), ElementsAre(3));
  EXPECT_THAT(ChooseBuckets(corpus, INT64_MAX), SizeIs(100));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { ChooseBuckets(corpus, 0); }), HasSubstr("is 0"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [] { ChooseBuckets({}, 1); }), HasSubstr("no sentences"));
}

// Batch after batch goes on in each row; the label of a step is the input of the next.
TEST(ContinuousTextTest, BatchesGoOnWhereTheOnesBeforeEnded) {
  const Corpus corpus = SyntheticSentences(Subset::kTrain, 1, 100);
  const Vocabulary vocabulary(corpus);
  constexpr int64_t kRows = 6, kSteps = 7;
  const auto data = ContinuousText(corpus, vocabulary, {kRows, kSteps});
  std::vector<float> text = {Vocabulary::kEnd};
  for (const auto& sentence : corpus.sentences) {
    for (const std::string& token : sentence) text.push_back(static_cast<float>(vocabulary.Id(token)));
    text.push_back(Vocabulary::kEnd);
  }
  const int64_t steps_of_row = (static_cast<int64_t>(text.size()) - 1) / kRows / kSteps * kSteps;
  EXPECT_EQ(data->size(), steps_of_row / kSteps * kRows);
  DataLoader loader(data, {.batch_size = kRows / 2, .shuffle = false, .share = {1, 2}, .num_epochs = 1});
  for (int64_t i = 0; const auto batch = loader.Next(); ++i) {
    ASSERT_EQ(batch->shape, Shape({kRows / 2, kSteps}));
    for (int64_t row = 0; row < kRows / 2; ++row) {
      for (int64_t step = 0; step < kSteps; ++step) {
        const auto at = static_cast<size_t>((kRows / 2 + row) * steps_of_row + i * kSteps + step);
        ASSERT_EQ(batch->samples[static_cast<size_t>(row * kSteps + step)], text[at]);
        ASSERT_EQ(batch->label_values[static_cast<size_t>(row * kSteps + step)], text[at + 1]);
      }
    }
  }
}

TEST(ContinuousTextTest, WrongOptionsAndShortTextsAreRefused) {
  const Corpus corpus = ParseCorpus("a b c d e");  // and its end: six labels
  const Vocabulary vocabulary(corpus);
  EXPECT_EQ(ContinuousText(corpus, vocabulary, {2, 3})->size(), 2);
  const auto error = [&](const ContinuousTextOptions& options) {
    return ErrorOf(ErrorCode::kInvalidArgument, [&] { ContinuousText(corpus, vocabulary, options); });
  };
  EXPECT_THAT(error({2, 4}), HasSubstr("a text of 6 tokens does not fill 2 rows of 4 steps"));
  EXPECT_THAT(error({0, 4}), HasSubstr("0 rows of 4 steps"));
}

// Every sentence comes once an epoch, in batches of one bucket but for the rest of each bucket.
TEST(BucketedBatchesTest, HaveOneBucketWhereTheyCan) {
  const Corpus corpus = SyntheticSentences(Subset::kTrain, 1, 200);
  const auto data = BucketedSentences(corpus, Vocabulary(corpus), {.buckets = {8, 12, 40}});
  for (const int64_t workers : {1, 3}) {
    std::multiset<uint64_t> seen;
    int64_t mixed = 0, steps = 0;
    std::vector<std::unique_ptr<DataLoader>> loaders;
    for (int64_t rank = 0; rank < workers; ++rank)
      loaders.push_back(std::make_unique<DataLoader>(
          data, DataLoaderOptions{.batch_size = 4, .seed = 5, .share = {rank, workers}, .num_epochs = 1}));
    for (;; ++steps) {
      std::set<int64_t> buckets;
      int64_t extent = 0;
      std::optional<Batch> batch;
      for (const auto& loader : loaders) {
        batch = loader->Next();
        if (!batch) break;
        extent = batch->shape[1];  // the same on all workers
        ASSERT_EQ(batch->label_shape, batch->shape);
        for (size_t i = 0; i < batch->indices.size(); ++i) {
          const auto index = static_cast<int64_t>(batch->indices[i]);
          seen.insert(batch->indices[i]);
          buckets.insert(*data->Bucket(index));
          const std::vector<float> whole = LabelOf(*data, index);
          for (int64_t step = 0; step < extent; ++step)
            ASSERT_EQ(batch->label_values[i * static_cast<size_t>(extent) + static_cast<size_t>(step)],
                      whole[static_cast<size_t>(step)]);
        }
      }
      if (!batch) break;
      ASSERT_EQ(extent, *buckets.rbegin());
      mixed += buckets.size() > 1;
    }
    EXPECT_LE(mixed, 3);
    EXPECT_EQ(steps, (data->size() + 4 * workers - 1) / (4 * workers));
    EXPECT_EQ(seen.size(), static_cast<size_t>(data->size()));
    EXPECT_EQ(std::set<uint64_t>(seen.begin(), seen.end()).size(), seen.size());
  }
}

TEST(BucketedBatchesTest, AreShuffledAndFoundAgain) {
  const Corpus corpus = SyntheticSentences(Subset::kTrain, 1, 200);
  const auto data = BucketedSentences(corpus, Vocabulary(corpus));
  DataLoader loader(data, {.batch_size = 8, .seed = 5});
  std::vector<std::vector<uint64_t>> batches;
  const int64_t steps = loader.steps_per_epoch();
  for (int64_t i = 0; i < 2 * steps; ++i) batches.push_back(loader.Next()->indices);
  EXPECT_NE(batches[0], batches[static_cast<size_t>(steps)]);
  loader.Seek({1, 3});
  EXPECT_EQ(loader.Next()->indices, batches[static_cast<size_t>(steps) + 3]);
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                      [&] { DataLoader(data, {.batch_size = 8, .last_batch = LastBatch::kRollover}); }),
              HasSubstr("keep or discard it"));
}

TEST(BucketedBatchesTest, SomeSamplesWithoutABucketAreRefused) {
  const Corpus corpus = ParseCorpus("a b c d");
  const auto bucketed = BucketedSentences(corpus, Vocabulary(corpus), {.buckets = {5}});
  const auto plain = ContinuousText(corpus, Vocabulary(corpus), {1, 5});
  for (const auto& both : {Concat({bucketed, plain}), Concat({plain, bucketed})})
    EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { DataLoader(both, {.batch_size = 1}); }),
                HasSubstr("sample 1 has"));
}

}  // namespace
}  // namespace sluice
