// What the language models' programs have in common: flags, texts and networks.
#pragma once

#include <gflags/gflags.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/flags.h"
#include "common/training.h"
#include "sluice/corpus.h"
#include "sluice/models.h"

DECLARE_string(unit);

namespace sluice::examples {

// The texts that --data-dir names, or synthetic ones, and the vocabulary of the training text.
struct LanguageTexts {
  Corpus train, test;
  Corpus held_out;  // where the folder has a set for validation: the test set; else empty
  Vocabulary vocabulary;
  std::string name;
};
// Reads or makes the texts, and warns of bytes that are no UTF-8. With --load-params, the vocabulary is the
// one that was saved. Throws Error for bad flags and files.
LanguageTexts LoadLanguage();
// The metadata of a run: what the ids mean.
FileMetadata MetadataOf(const Vocabulary& vocabulary);
// Returns the network that the flags describe.
nn::LanguageModelOptions ModelOptions(const Vocabulary& vocabulary, bool carries_state);
// Returns what ParseFlags needs. `defaults` as in Program.
Program LanguageProgram(std::string usage, std::vector<std::pair<std::string, std::string>> defaults);
// Checks the flags of language.cc.
void CheckLanguageFlags();
// The language models' loss, their metric, and their initialiser, the one of PyTorch's
// example word_language_model.
std::shared_ptr<const nn::Loss> LanguageLoss();
metric::Factory LanguageMetric();
std::shared_ptr<const nn::Initializer> LanguageInitializer();

}  // namespace sluice::examples
