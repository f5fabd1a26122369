// The stock networks of the examples. Their outputs are scores for SoftmaxCrossEntropyLoss.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sluice/nn.h"

namespace sluice::nn {

// The first four networks take images [batch, 1, 28, 28] (other sizes and channels are inferred) and have ten
// classes.
//
// Flatten, dense 128 relu, dense 64 relu, dense 10.
Sequential Mlp();
// Convolution 5x5x20, tanh, max-pool 2x2/2, convolution 5x5x50, tanh, max-pool 2x2/2, dense 500, tanh,
// dense 10.
Sequential Lenet();
// Lenet with average pooling. Unlike max-pooling this has no ties between equal values, so that jobs that
// should give equal results stay equal.
Sequential LenetAvg();
// Convolution 5x5x6 relu, max-pool 2x2/2, convolution 3x3x16 relu, max-pool 2x2/2, dense 120 relu, dense 84
// relu, dense 10.
Sequential GluonLenet();

// The residual network of 20 layers for images [batch, 3, 32, 32] (He, Zhang, Ren, Sun 2016, section 4.2):
// convolution 3x3x16; three stages of three blocks with 16, 32 and 64 channels, where the second and the
// third stage halve the image; the mean over the image; dense. Each convolution is followed by BatchNorm and
// has no bias. Where a block changes the shape, its shortcut is a 1x1 convolution with BatchNorm, the paper's
// option B. The network has 272,474 parameters for ten classes. The paper's initialiser is
// Xavier(RandomType::kGaussian, FactorType::kIn, 2).
Sequential Resnet20(int64_t classes = 10);

// The networks for text take sequences of ids [batch, length]; ids are below `vocabulary`, and 0 is padding.
// `sparse_grad` is EmbeddingOptions::sparse_grad.
//
// The mean of the embeddings of a sequence's words; dense. This is fastText (Joulin, Grave, Bojanowski,
// Mikolov 2017).
Sequential TextMean(int64_t vocabulary = 10'000, int64_t classes = 10, int64_t dim = 64,
                    bool sparse_grad = false);
// Convolutions over windows of 3, 4 and 5 words, with zeros for padding; relu; the largest value of each
// filter over the sequence; dropout 0.5; dense (Kim 2014).
Sequential TextCnn(int64_t vocabulary = 10'000, int64_t classes = 10, int64_t dim = 64, int64_t filters = 100,
                   bool sparse_grad = false);
// A recurrent layer over the embeddings of a sequence's words; dense, on the state after the last word.
// Padding after the last word changes nothing.
Sequential TextLstm(int64_t vocabulary = 10'000, int64_t classes = 10, int64_t dim = 64, int64_t hidden = 64,
                    bool sparse_grad = false);
Sequential TextGru(int64_t vocabulary = 10'000, int64_t classes = 10, int64_t dim = 64, int64_t hidden = 64,
                   bool sparse_grad = false);

struct LanguageModelOptions {
  int64_t vocabulary = 10'000;
  int64_t embedding = 200, hidden = 200;
  int64_t layers = 2;
  bool gru = false;    // gated recurrent units in place of long short-term memory
  double dropout = 0;  // behind the embedding and each recurrent layer
  bool tied = false;   // embedding and decoder share one weight; `embedding` and `hidden` must be equal
  bool carries_state = false;  // RecurrentOptions::carries_state
  bool sparse_grad = false;    // EmbeddingOptions::sparse_grad; not for a tied decoder
};
// Predicts the next token at each step: ids [batch, steps] -> scores [batch, steps, vocabulary]. The layers
// are embed, layer0, layer1, ..., decode, with dropout between; each is a group of a Placement of its own.
// For a tied decoder embed and decode must lie on one context.
Sequential LanguageModel(const LanguageModelOptions& options);

// Returns "mlp", "lenet", "lenet_avg", "gluon_lenet", "resnet20", "text_mean", "text_cnn", "text_lstm" and
// "text_gru".
std::vector<std::string_view> ModelNames();
// Makes the network of this name with the default sizes above. Throws Error(kNotFound), which lists the
// names, for any other name.
Sequential CreateModel(std::string_view name);

}  // namespace sluice::nn
