// Trains a classifier of texts: an embedding of their words and a small network behind it. On synthetic
// texts, or on those of --data-dir; on one device or many, in one process or a job.
//
//   build/bin/train_text
//   build/bin/train_text --data-dir data/news --network text_cnn
//   tools/launch.py -n 2 -s 2 build/bin/train_text --kv-store dist_sync
#include "common/flags.h"
#include "common/training.h"
#include "sluice/models.h"
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
DEFINE_int64(vocabulary, 10'000, "Of --data-dir: so many words at most, the most frequent ones.");
DEFINE_int64(text_length, 64, "Of --data-dir: words of a text; longer ones are cut.");

namespace {

using namespace sluice;

const examples::Program kProgram = {
    .usage = "Trains a classifier of texts.",
    .networks = {"text_mlp", "text_mean", "text_cnn", "text_lstm", "text_gru"},
    .defaults = {{"optimizer", "adam"}, {"lr", "0.01"}, {"wd", "0"}}};

struct Task {
  examples::Data data;
  int64_t vocabulary;
};

Task Texts() {
  if (FLAGS_data_dir.empty()) {
    return {{SyntheticText(Subset::kTrain, 0, FLAGS_num_examples),
             SyntheticText(Subset::kTest, 0, FLAGS_num_test_examples), "synthetic texts", "texts"},
            kSyntheticVocabulary};
  }
  const auto texts =
      examples::LoadTexts(FLAGS_data_dir, {.vocabulary = FLAGS_vocabulary, .length = FLAGS_text_length});
  return {examples::Part({texts.train, texts.test, FLAGS_data_dir, "texts"}), texts.vocabulary};
}

nn::Sequential TextMlp(int64_t vocabulary, int64_t classes, int64_t dim) {
  nn::Sequential net;
  net.Add("embedding", nn::Embedding(vocabulary, dim)).Add("mean", nn::SequenceMean());
  net.Add("fc1", nn::Dense(64)).Add("relu", nn::Activation::Relu()).Add("fc2", nn::Dense(classes));
  return net;
}

nn::Sequential Network(const Task& task) {
  const int64_t classes = task.data.train->num_classes();
  if (FLAGS_network == "text_mean") return nn::TextMean(task.vocabulary, classes, FLAGS_embedding);
  if (FLAGS_network == "text_cnn") return nn::TextCnn(task.vocabulary, classes, FLAGS_embedding);
  if (FLAGS_network == "text_lstm") return nn::TextLstm(task.vocabulary, classes, FLAGS_embedding);
  if (FLAGS_network == "text_gru") return nn::TextGru(task.vocabulary, classes, FLAGS_embedding);
  return TextMlp(task.vocabulary, classes, FLAGS_embedding);
}

}  // namespace

int main(int argc, char** argv) {
  return RunProgram(argc, argv, [&] {
    examples::ParseFlags(argc, argv, kProgram);
    examples::RequireBetween("embedding", FLAGS_embedding, 1, 65'536);
    // Padding, unknown and a word at least; a float holds at most 2^24 ids.
    examples::RequireBetween("vocabulary", FLAGS_vocabulary, 3, int64_t{1} << 24);
    examples::RequireBetween("text-length", FLAGS_text_length, 1, 65'536);
    const Task task = Texts();
    nn::Sequential net = Network(task);
    examples::Train(net, task.data);
  });
}
