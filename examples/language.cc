// Flags, texts and networks of language models. A folder has the files of the Penn Treebank (ptb.train.txt,
// ptb.valid.txt, ptb.test.txt), or train.txt, valid.txt and test.txt; valid.txt may be missing.
#include "language.h"

#include <filesystem>
#include <iostream>
#include <utility>

#include "common/flags.h"
#include "common/text.h"
#include "sluice/parameters_file.h"

DEFINE_string(network, "lstm", "Which cells: lstm or gru.");
DEFINE_string(
    data_dir, "",
    "Folder with ptb.train.txt, ptb.valid.txt and ptb.test.txt, or without \"ptb.\"; a line is a "
    "sentence, spaces separate words. The validation set may be missing. Empty: synthetic sentences.");
DEFINE_string(unit, "words", "What is predicted: words or characters.");
DEFINE_int64(min_count, 1, "Words that come less often in the training text are unknown.");
DEFINE_int64(vocabulary, 0, "How many different words are known at most, the most frequent ones; 0: all.");
DEFINE_int64(num_layers, 2, "Number of recurrent layers.");
DEFINE_int64(num_hidden, 200, "Size of a recurrent layer.");
DEFINE_int64(num_embed, 200, "Size of a word's embedding.");
DEFINE_double(dropout, 0, "Rate of dropout behind the embedding and each recurrent layer.");
DEFINE_bool(tied, false, "Whether embedding and decoder share their weight.");
DEFINE_bool(
    sparse_embedding, false,
    "Whether the embedding's gradient is row-sparse: a step then takes the time of the words of a batch, "
    "not of the vocabulary.");

namespace sluice::examples {
namespace {

TextUnit Unit() {
  RequireOneOf("unit", FLAGS_unit, {"words", "characters"});
  return FLAGS_unit == "words" ? TextUnit::kWords : TextUnit::kCharacters;
}

// Returns the file of a set, such as "train", or "" if there is none.
std::string FileOf(const std::string& set) {
  for (const char* prefix : {"ptb.", ""}) {
    std::string path = StrCat(FLAGS_data_dir, "/", prefix, set, ".txt");
    if (std::filesystem::exists(path)) return path;
  }
  return "";
}

Corpus Read(const std::string& path) {
  Corpus corpus = ReadCorpus(path, Unit());
  if (corpus.invalid_bytes > 0) {
    std::cerr << WrapMessage(StrCat("warning: '", path, "' is not all UTF-8: ", corpus.invalid_bytes,
                                    " bytes were read as U+FFFD"))
              << std::endl;
  }
  return corpus;
}

Corpus Required(const std::string& set) {
  const std::string path = FileOf(set);
  if (path.empty()) ThrowInvalid("data-dir", StrCat("is '", FLAGS_data_dir, "', which has no ", set, ".txt"));
  return Read(path);
}

Vocabulary VocabularyFor(const Corpus& train) {
  if (FLAGS_load_params.empty())
    return Vocabulary(train, {.min_count = FLAGS_min_count, .max_size = FLAGS_vocabulary});
  for (const auto& [name, flag] : {std::pair("min_count", "min-count"), {"vocabulary", "vocabulary"}}) {
    if (IsGiven(name))
      ThrowInvalid(flag, "makes a vocabulary; with --load-params it is the one that was saved");
  }
  const FileMetadata metadata = ReadFileMetadata(FLAGS_load_params);
  const auto found = metadata.find("vocabulary");
  if (found == metadata.end())
    ThrowInvalid("load-params", StrCat("is '", FLAGS_load_params, "', which has no vocabulary"));
  try {
    return Vocabulary::FromText(found->second);
  } catch (const Error& error) {
    throw Error(error.code(), StrCat("the vocabulary of '", FLAGS_load_params, "': ", error.what()));
  }
}

Corpus FirstOf(Corpus corpus, const std::string& flag, int64_t count) {
  const auto has = static_cast<int64_t>(corpus.sentences.size());
  if (count > has) ThrowInvalid(flag, StrCat("is ", count, "; there are ", has, " sentences"));
  if (count >= 0) corpus.sentences.resize(static_cast<size_t>(count));
  return corpus;
}

Corpus InUnits(Corpus corpus) {
  if (Unit() == TextUnit::kWords) return corpus;
  std::string text;
  for (const auto& sentence : corpus.sentences) {
    for (const std::string& word : sentence) text += (text.empty() || text.back() == '\n' ? "" : " ") + word;
    text += '\n';
  }
  return ParseCorpus(text, TextUnit::kCharacters);
}

}  // namespace

LanguageTexts LoadLanguage() {
  Corpus train, test, held_out;
  if (FLAGS_data_dir.empty()) {
    train = InUnits(SyntheticSentences(Subset::kTrain, 0, FLAGS_num_examples));
    test = InUnits(SyntheticSentences(Subset::kTest, 0, FLAGS_num_test_examples));
  } else {
    train = FirstOf(Required("train"), "num-examples", FLAGS_num_examples);
    const std::string valid = FileOf("valid");
    test = Required("test");
    if (!valid.empty()) held_out = std::exchange(test, Read(valid));
    test = FirstOf(std::move(test), "num-test-examples", FLAGS_num_test_examples);
  }
  Vocabulary vocabulary = VocabularyFor(train);
  return {std::move(train), std::move(test), std::move(held_out), std::move(vocabulary),
          FLAGS_data_dir.empty() ? "synthetic sentences" : FLAGS_data_dir};
}

FileMetadata MetadataOf(const Vocabulary& vocabulary) {
  return {{"vocabulary", vocabulary.ToText()}};
}

nn::LanguageModelOptions ModelOptions(const Vocabulary& vocabulary, bool carries_state) {
  return {.vocabulary = vocabulary.size(),
          .embedding = FLAGS_num_embed,
          .hidden = FLAGS_num_hidden,
          .layers = FLAGS_num_layers,
          .gru = FLAGS_network == "gru",
          .dropout = FLAGS_dropout,
          .tied = FLAGS_tied,
          .carries_state = carries_state,
          .sparse_grad = FLAGS_sparse_embedding};
}

Program LanguageProgram(std::string usage, std::vector<std::pair<std::string, std::string>> defaults) {
  return {.usage = std::move(usage),
          .networks = {"lstm", "gru"},
          .defaults = std::move(defaults),
          .rates = {{"sgd", 0.1}, {"nag", 0.1}}};
}

void CheckLanguageFlags() {
  Unit();
  RequireAtLeast("min-count", FLAGS_min_count, 0);
  if (FLAGS_vocabulary != 0) RequireBetween("vocabulary", FLAGS_vocabulary, 4, int64_t{1} << 24);
  RequireBetween("num-layers", FLAGS_num_layers, 1, 1'000);
  RequireBetween("num-hidden", FLAGS_num_hidden, 1, 65'536);
  RequireBetween("num-embed", FLAGS_num_embed, 1, 65'536);
  if (!(FLAGS_dropout >= 0 && FLAGS_dropout < 1))
    ThrowInvalid("dropout", StrCat("is ", FLAGS_dropout, "; it must be from 0 to below 1"));
  if (FLAGS_tied && FLAGS_num_embed != FLAGS_num_hidden)
    ThrowInvalid("tied", "needs --num-embed and --num-hidden to be equal");
  if (FLAGS_tied && FLAGS_sparse_embedding)
    ThrowInvalid("sparse-embedding", "is for an untied decoder: the gradient of a shared weight is dense");
  if (FLAGS_top_k > 0) ThrowInvalid("top-k", "is for classifiers; language models report the perplexity");
  if (FLAGS_label_smoothing > 0)
    ThrowInvalid("label-smoothing", "would change the loss that the perplexity is computed from");
  if (!FLAGS_class_weights.empty()) ThrowInvalid("class-weights", "is for classifiers");
}

std::shared_ptr<const nn::Loss> LanguageLoss() {
  return std::make_shared<nn::SoftmaxCrossEntropyLoss>(
      nn::SoftmaxCrossEntropyLoss::Options{.ignored_label = Vocabulary::kPadding, .sums_steps = true});
}

metric::Factory LanguageMetric() {
  return [] { return std::make_unique<metric::Perplexity>(Vocabulary::kPadding); };
}

std::shared_ptr<const nn::Initializer> LanguageInitializer() {
  return std::make_shared<nn::Uniform>(0.1);
}

}  // namespace sluice::examples
