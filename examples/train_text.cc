// Trains a text classifier: an embedding of the words, followed by a small network. It reads the texts of
// --data-dir, or makes synthetic ones. The same program runs on one device or several, in one process or in a
// job.
//
//   build/bin/train_text
//   build/bin/train_text --data-dir data/news --network text_cnn
//   tools/launch.py -n 2 -s 2 build/bin/train_text --kv-store dist_sync
#include <filesystem>

#include "common/flags.h"
#include "common/outputs.h"
#include "common/text.h"
#include "common/training.h"
#include "sluice/checkpoint.h"
#include "sluice/models.h"
#include "sluice/parameters_file.h"
#include "sluice/runtime.h"
#include "text_files.h"

DEFINE_string(
    network, "text_mlp",
    "Which network: text_mlp (one hidden layer behind the mean of the embeddings), text_mean "
    "(fastText's: none), text_cnn (convolutions over 3, 4 and 5 words), text_lstm and text_gru (recurrent "
    "over the words).");
DEFINE_string(data_dir, "",
              "Folder with train.tsv and test.tsv, a line \"label<TAB>text\" for each text. Empty: synthetic "
              "texts.");
DEFINE_int64(embedding, 64, "Size of a word's embedding.");
DEFINE_bool(
    sparse_embedding, false,
    "Whether the embedding's gradient is row-sparse: a step then takes the time of the words of a batch, "
    "not of the vocabulary.");
DEFINE_int64(vocabulary, 10'000,
             "How many words of --data-dir are known at most, the most frequent ones. With --load-params and "
             "--load-epoch: those that were saved.");
DEFINE_int64(
    text_length, 64,
    "Words of a text in --data-dir; longer texts are cut. With --load-params and --load-epoch: as saved.");

namespace {

using namespace sluice;
using examples::StrCat;

const examples::Program kProgram = {
    .usage = "Trains a classifier of texts.",
    .networks = {"text_mlp", "text_mean", "text_cnn", "text_lstm", "text_gru"},
    .defaults = {{"optimizer", "adam"}, {"wd", "0"}},
    .rates = {{"adam", 0.01}, {"adamw", 0.01}, {"signum", 0.001}},
    .unfit = {"sgd", "nag"}};

struct Task {
  examples::Data data;
  int64_t vocabulary;  // number of ids
};

// Returns the file whose parameters the run starts from, or "". Its metadata say what ids and classes mean,
// so the texts are encoded with them. With --load-epoch only rank 0 needs the file, so it may be missing
// here. With --resume the result is "": the data are encoded anew, and common/training.cc then requires that
// the checkpoint's metadata are the same.
std::string ParametersFile() {
  if (!FLAGS_load_params.empty()) return FLAGS_load_params;
  if (FLAGS_load_epoch == 0) return "";
  const std::string file = CheckpointFile(FLAGS_model_prefix, {FLAGS_load_epoch, 0});
  return std::filesystem::exists(file) ? file : "";
}

// Throws if --text-length or --vocabulary were given with a value that contradicts the saved parameters.
void RequireFits(const examples::SavedVectorizer& saved) {
  const int64_t length = saved.vectorizer.length, vocabulary = saved.vectorizer.vocabulary();
  if (examples::IsGiven("text_length") && FLAGS_text_length != length) {
    examples::ThrowInvalid("text-length",
                           StrCat("is ", FLAGS_text_length, ", and the parameters of '", saved.file,
                                  "' are for texts of ", length, " words; leave it out"));
  }
  if (examples::IsGiven("vocabulary") && FLAGS_vocabulary < vocabulary) {
    examples::ThrowInvalid("vocabulary", StrCat("is ", FLAGS_vocabulary, ", and the parameters of '",
                                                saved.file, "' are for ", vocabulary, " ids; leave it out"));
  }
}

examples::Texts TextsOfFiles() {
  const std::string file = ParametersFile();
  if (file.empty())
    return examples::LoadTexts(FLAGS_data_dir, {.vocabulary = FLAGS_vocabulary, .length = FLAGS_text_length});
  const examples::SavedVectorizer saved{examples::VectorizerOf(ReadFileMetadata(file), file), file};
  RequireFits(saved);
  const bool only_evaluates = !FLAGS_load_params.empty() && !examples::TrainsAfter(0);
  return examples::LoadTexts(FLAGS_data_dir, saved, !only_evaluates);
}

// Refuses a vocabulary that does not fit into the header of a parameter file, before hours of training.
void RequireSavable(const FileMetadata& metadata) {
  // Half of the 100 MB that a safetensors header may have, because JSON may escape characters.
  constexpr size_t kMost = 50'000'000;
  const size_t bytes = metadata.at("vocabulary").size() + metadata.at("labels").size();
  if (bytes <= kMost || !examples::SavesParameters()) return;
  examples::ThrowInvalid("vocabulary",
                         StrCat("is ", FLAGS_vocabulary, ", whose words and the labels have ", bytes,
                                " bytes; a file of parameters takes ", kMost, ": lower it"));
}

Task Texts() {
  if (FLAGS_data_dir.empty()) {
    for (const auto& [name, flag] : {std::pair("text_length", "text-length"), {"vocabulary", "vocabulary"}}) {
      if (examples::IsGiven(name))
        examples::ThrowInvalid(flag, "is for texts of --data-dir; the synthetic ones have their own");
    }
    if (!FLAGS_load_params.empty() && ReadFileMetadata(FLAGS_load_params).contains("vocabulary"))
      examples::ThrowInvalid("load-params", StrCat("is '", FLAGS_load_params,
                                                   "', trained on texts of files; give --data-dir, too"));
    return {{SyntheticText(Subset::kTrain, 0, FLAGS_num_examples),
             SyntheticText(Subset::kTest, 0, FLAGS_num_test_examples), "synthetic texts", "texts"},
            kSyntheticVocabulary};
  }
  const examples::Texts texts = TextsOfFiles();
  const FileMetadata metadata = MetadataOf(texts.vectorizer);
  RequireSavable(metadata);
  return {examples::Part({texts.train, texts.test, FLAGS_data_dir, "texts", metadata}),
          texts.vectorizer.vocabulary()};
}

nn::Sequential TextMlp(int64_t vocabulary, int64_t classes, int64_t dim) {
  nn::Sequential net;
  net.Add("embedding",
          nn::EmbeddingBag(vocabulary, dim, {.padding = 0, .sparse_grad = FLAGS_sparse_embedding}));
  net.Add("fc1", nn::Dense(64)).Add("relu", nn::Activation::Relu()).Add("fc2", nn::Dense(classes));
  return net;
}

nn::Sequential Network(const Task& task) {
  const int64_t classes = task.data.train->num_classes(), dim = FLAGS_embedding;
  const bool sparse = FLAGS_sparse_embedding;
  if (FLAGS_network == "text_mean") return nn::TextMean(task.vocabulary, classes, dim, sparse);
  if (FLAGS_network == "text_cnn") return nn::TextCnn(task.vocabulary, classes, dim, 100, sparse);
  if (FLAGS_network == "text_lstm") return nn::TextLstm(task.vocabulary, classes, dim, 64, sparse);
  if (FLAGS_network == "text_gru") return nn::TextGru(task.vocabulary, classes, dim, 64, sparse);
  return TextMlp(task.vocabulary, classes, FLAGS_embedding);
}

}  // namespace

int main(int argc, char** argv) {
  RestartWithBriefSpins(argc, argv);
  return RunProgram(argc, argv, [&] {
    examples::ParseFlags(argc, argv, kProgram);
    examples::RequireBetween("embedding", FLAGS_embedding, 1, 65'536);
    // The smallest vocabulary has three ids: padding, the unknown word, and one word.
    examples::RequireBetween("vocabulary", FLAGS_vocabulary, 3, examples::kMaxVocabulary);
    examples::RequireBetween("text-length", FLAGS_text_length, 1, examples::kMaxTextLength);
    const Task task = Texts();
    examples::Train(
        kProgram, [&] { return Network(task); }, task.data);
  });
}
