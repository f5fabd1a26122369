// Tests examples/common/text.h: files of texts, their vocabulary, and a vectorizer that is saved with the
// parameters.
#include "text_files.h"

#include <gmock/gmock.h>

#include "data/safetensors/safetensors.h"
#include "unit/data/temporary_folder.h"
#include "unit/expect_error.h"

namespace sluice::examples {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kTrain = "good\tfine film, fine ending\nbad\tdull film\n",
                           kTest = "bad\tdull ENDING nobody liked\n";

// By hand: fine and film occur twice, film before fine in bytes; then dull before ending.
const TextVectorizer kVectorizer{{"film", "fine", "dull", "ending"}, {"bad", "good"}, 4};

std::vector<float> Sample(const ArrayDataset& set, int64_t index) {
  const auto sample = set.sample(index);
  return {sample.begin(), sample.end()};
}

TEST(TextFilesTest, WordsByFrequencyAndLabelsInOrder) {
  const Texts texts = ParseTexts(kTrain, kTest, "folder", {.vocabulary = 100, .length = 4});
  EXPECT_EQ(texts.vectorizer, kVectorizer);
  EXPECT_EQ(texts.vectorizer.vocabulary(), 6);
  EXPECT_THAT(Sample(*texts.train, 0), ElementsAre(3, 2, 3, 5));
  EXPECT_THAT(Sample(*texts.train, 1), ElementsAre(4, 2, 0, 0));
  EXPECT_THAT(Sample(*texts.test, 0), ElementsAre(4, 5, 1, 1));
  EXPECT_EQ(texts.train->Label(0), 1);
  EXPECT_EQ(texts.test->Label(0), 0);
}

// A network trained on kTrain reads other files.
TEST(TextFilesTest, ASavedVectorizerMakesTheSameNumbersWhateverTheFilesHave) {
  constexpr std::string_view other = "ugly\tno such label\n";
  const Texts texts = ParseTexts("good\tnew new new film\n", kTest, "folder", {kVectorizer, "p"});
  EXPECT_THAT(Sample(*texts.train, 0), ElementsAre(1, 1, 1, 2));
  EXPECT_THAT(Sample(*texts.test, 0), ElementsAre(4, 5, 1, 1));
  EXPECT_EQ(texts.train->Label(0), 1);
  EXPECT_EQ(texts.train->num_classes(), 2);
  EXPECT_EQ(texts.vectorizer, kVectorizer);
  const std::string why = ErrorOf(ErrorCode::kDataLoss, [&] {
    ParseTexts(kTrain, other, "folder", {kVectorizer, "p.safetensors"});
  });
  EXPECT_THAT(why, AllOf(HasSubstr("test.tsv"), HasSubstr("line 1"), HasSubstr("'ugly'"),
                         HasSubstr("'p.safetensors'")));
}

TEST(TextFilesTest, MetadataAreLinesById) {
  const auto metadata = MetadataOf(kVectorizer);
  EXPECT_EQ(metadata.at("vocabulary"), "<pad>\n<unk>\nfilm\nfine\ndull\nending");
  EXPECT_EQ(metadata.at("labels"), "bad\ngood");
  EXPECT_EQ(metadata.at("text_length"), "4");
  EXPECT_EQ(VectorizerOf(metadata, "p"), kVectorizer);
}

TEST(TextFilesTest, AnyBytesComeBackOutOfAFileOfParameters) {
  const TemporaryFolder folder;
  const std::string path = folder.path("p.safetensors");
  const TextVectorizer odd{{"\xe4rger", "\xc3\xa4rger", "it's"}, {"a\\b", "a\xff", "a\r\x01x", "1 2"}, 1};
  WriteSafetensors(path, {}, MetadataOf(odd)).OrThrow();
  EXPECT_EQ(VectorizerOf(ReadSafetensors(path).OrThrow().metadata, path), odd);
}

TEST(TextFilesTest, MetadataThatNoRunWritesAreRefused) {
  for (const std::string name : {"vocabulary", "labels", "text_length"}) {
    auto metadata = MetadataOf(kVectorizer);
    metadata.erase(name);
    EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { VectorizerOf(metadata, "p.safetensors"); }),
                AllOf(HasSubstr("'p.safetensors'"), HasSubstr("'" + name + "'"), HasSubstr("train")));
  }
  const std::pair<const char*, const char*> spoilt[] = {{"vocabulary", ""},
                                                        {"vocabulary", "<pad>"},
                                                        {"vocabulary", "<unk>\n<pad>"},
                                                        {"vocabulary", "<pad>\n<unk>\n"},
                                                        {"vocabulary", "<pad>\n<unk>\nFine"},
                                                        {"vocabulary", "<pad>\n<unk>\ntwo words"},
                                                        {"vocabulary", "<pad>\n<unk>\nfine\nfine"},
                                                        {"vocabulary", "<pad>\n<unk>\n\\x4"},
                                                        {"vocabulary", "<pad>\n<unk>\n\\x61"},
                                                        {"labels", ""},
                                                        {"labels", "bad\n"},
                                                        {"labels", " bad"},
                                                        {"labels", "bad\nbad"},
                                                        {"labels", "b\\ad"},
                                                        {"text_length", "0"},
                                                        {"text_length", "65537"},
                                                        {"text_length", "4 "}};
  for (const auto& [name, text] : spoilt) {
    auto metadata = MetadataOf(kVectorizer);
    metadata[name] = text;
    EXPECT_THAT(ErrorOf(ErrorCode::kDataLoss, [&] { VectorizerOf(metadata, "p.safetensors"); }),
                AllOf(HasSubstr("'p.safetensors'"), HasSubstr(std::string("'") + name + "'")))
        << text;
  }
}

}  // namespace
}  // namespace sluice::examples
