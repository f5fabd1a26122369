// Trains an LSTM or GRU language model on one long text, by truncated back-propagation: each batch goes on in
// the text, and in the states of the layers, where the batch before has ended.
//
//   build/bin/word_lm
//   build/bin/word_lm --data-dir data/ptb --num-layers 2 --num-hidden 200
//   tools/launch.py -n 2 -s 2 build/bin/word_lm --kv-store dist_sync
#include "common/flags.h"
#include "common/text.h"
#include "language.h"
#include "sluice/job.h"
#include "sluice/runtime.h"

DEFINE_int64(steps, 35, "Words of a step of truncated back-propagation.");

namespace {

using namespace sluice;
using examples::StrCat;

constexpr int64_t kEvalRows = 10;

std::shared_ptr<const Dataset> Text(const std::string& what, const Corpus& corpus,
                                    const Vocabulary& vocabulary, int64_t rows) {
  if (corpus.sentences.empty()) return nullptr;
  try {
    return ContinuousText(corpus, vocabulary, {rows, FLAGS_steps});
  } catch (const Error& error) {
    throw Error(error.code(), StrCat("the ", what, " text: ", error.what()));
  }
}

FileMetadata Metadata(const Vocabulary& vocabulary) {
  FileMetadata metadata = examples::MetadataOf(vocabulary);
  metadata["steps"] = StrCat(FLAGS_steps);
  return metadata;
}

examples::Data Load(const examples::LanguageTexts& texts) {
  const int workers = examples::IsDistributed() ? Job().num_workers : 1;
  return {.train = Text("training", texts.train, texts.vocabulary, FLAGS_batch_size * workers),
          .test = Text("test", texts.test, texts.vocabulary, kEvalRows),
          .name = texts.name,
          .samples = "pieces",
          .metadata = Metadata(texts.vocabulary),
          .loss = examples::LanguageLoss(),
          .metric = examples::LanguageMetric(),
          .eval_batch_size = kEvalRows,
          .held_out = Text("held-out", texts.held_out, texts.vocabulary, kEvalRows)};
}

}  // namespace

int main(int argc, char** argv) {
  RestartWithBriefSpins(argc, argv);
  return RunProgram(argc, argv, [&] {
    const examples::Program program =
        examples::LanguageProgram("Trains a language model on one long text.", {{"batch_size", "32"},
                                                                                {"mom", "0"},
                                                                                {"wd", "0"},
                                                                                {"clip_global_norm", "5"},
                                                                                {"lr_plateau", "0.5"},
                                                                                {"shuffle", "false"}});
    examples::ParseFlags(argc, argv, program);
    examples::CheckLanguageFlags();
    examples::RequireBetween("steps", FLAGS_steps, 1, 65'536);
    if (FLAGS_shuffle)
      examples::ThrowInvalid(
          "shuffle",
          "would read the text out of order, and each batch goes on where the one before has ended");
    const examples::LanguageTexts texts = examples::LoadLanguage();
    const auto network = [&] { return nn::LanguageModel(examples::ModelOptions(texts.vocabulary, true)); };
    examples::Train(program, network, Load(texts), examples::LanguageInitializer());
  });
}
