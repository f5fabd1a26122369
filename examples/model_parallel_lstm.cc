// Trains a deep LSTM language model whose layers are spread over devices: while one device works on a part of
// the batch, the next device works on the part before. Sentences are sorted into buckets by their length, so
// that little padding is computed.
//
//   build/bin/model_parallel_lstm
//   build/bin/model_parallel_lstm --num-devices 4 --micro-batches 8
//   build/bin/model_parallel_lstm --group2ctx "embed=cpu(0),layer0=cpu(0),...,decode=cpu(1)"
//   tools/launch.py -n 2 -s 2 build/bin/model_parallel_lstm --kv-store dist_sync
#include <iostream>

#include "common/flags.h"
#include "common/text.h"
#include "language.h"
#include "sluice/runtime.h"

DEFINE_string(buckets, "8,16,24,32,60",
              "Steps of the buckets, ascending; a sentence of n words takes n + 1. A number alone: so many "
              "buckets, chosen from the training text. Sentences that fit none are left out.");

namespace {

using namespace sluice;
using examples::StrCat;

constexpr int64_t kMostSteps = 65'536;

std::vector<int64_t> Buckets(const Corpus& train) {
  std::vector<int64_t> buckets;
  for (const std::string& part : examples::StrSplit(FLAGS_buckets, ',')) {
    const auto steps = examples::ParseInt(examples::StrTrim(part));
    if (!steps || *steps < 1 || *steps > kMostSteps || (!buckets.empty() && *steps <= buckets.back()))
      examples::ThrowInvalid(
          "buckets", StrCat("is '", FLAGS_buckets, "'; it takes ascending numbers from 1 to ", kMostSteps));
    buckets.push_back(*steps);
  }
  return buckets.size() == 1 ? ChooseBuckets(train, buckets[0]) : buckets;
}

std::shared_ptr<const Dataset> Sentences(const std::string& what, const Corpus& corpus,
                                         const Vocabulary& vocabulary, const BucketOptions& buckets) {
  if (corpus.sentences.empty()) return nullptr;
  BucketCounts counts;
  auto sentences = BucketedSentences(corpus, vocabulary, buckets, &counts);
  std::string by_bucket;
  for (size_t i = 0; i < buckets.buckets.size(); ++i)
    by_bucket += StrCat(i > 0 ? ", " : "", counts.sentences[i], " of up to ", buckets.buckets[i]);
  std::cout << examples::WrapMessage(
                   StrCat(what, ": ", counts.tokens, " ", FLAGS_unit, ", ", counts.unknown,
                          " of them unknown; sentences: ", by_bucket,
                          counts.too_long > 0 ? StrCat(", ", counts.too_long, " too long") : ""))
            << std::endl;
  return sentences;
}

// What the checkpoints of a run must have in common: what the ids mean, and which samples form a batch.
FileMetadata Metadata(const Vocabulary& vocabulary, const BucketOptions& buckets) {
  FileMetadata metadata = examples::MetadataOf(vocabulary);
  std::vector<std::string> texts;
  for (const int64_t steps : buckets.buckets) texts.push_back(StrCat(steps));
  metadata["buckets"] = examples::StrJoin(texts);
  return metadata;
}

examples::Data Load(const examples::LanguageTexts& texts) {
  const BucketOptions buckets{Buckets(texts.train)};
  return {.train = Sentences("training", texts.train, texts.vocabulary, buckets),
          .test = Sentences("test", texts.test, texts.vocabulary, buckets),
          .name = texts.name,
          .samples = "sentences",
          .metadata = Metadata(texts.vocabulary, buckets),
          .loss = examples::LanguageLoss(),
          .metric = examples::LanguageMetric(),
          .eval_batch_size = FLAGS_batch_size,
          .held_out = Sentences("held out", texts.held_out, texts.vocabulary, buckets)};
}

}  // namespace

int main(int argc, char** argv) {
  RestartWithBriefSpins(argc, argv);
  return RunProgram(argc, argv, [&] {
    const examples::Program program = examples::LanguageProgram(
        "Trains an LSTM language model whose layers are spread over devices.", {{"num_layers", "8"},
                                                                                {"num_hidden", "400"},
                                                                                {"batch_size", "20"},
                                                                                {"dropout", "0.5"},
                                                                                {"mom", "0"},
                                                                                {"wd", "0"},
                                                                                {"clip_global_norm", "5"},
                                                                                {"lr_plateau", "0.5"},
                                                                                {"group2ctx", "auto"},
                                                                                {"num_devices", "2"}});
    examples::ParseFlags(argc, argv, program);
    examples::CheckLanguageFlags();
    if (examples::LastBatchPolicy() == LastBatch::kRollover)
      examples::ThrowInvalid("last-batch",
                             "is rollover; sentences in buckets form batches of their own in every epoch");
    const examples::LanguageTexts texts = examples::LoadLanguage();
    const auto network = [&] { return nn::LanguageModel(examples::ModelOptions(texts.vocabulary, false)); };
    examples::Train(program, network, Load(texts), examples::LanguageInitializer());
  });
}
