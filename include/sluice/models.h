// The stock networks of the examples, which end in scores for SoftmaxCrossEntropyLoss.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sluice/nn.h"

namespace sluice::nn {

// Of images [batch, 1, 28, 28] (other sizes and channels are inferred) and ten classes.
//
// Flatten, dense 128 relu, dense 64 relu, dense 10.
Sequential Mlp();
// Convolution 5x5x20, tanh, max-pool 2x2/2, convolution 5x5x50, tanh, max-pool 2x2/2, dense 500, tanh,
// dense 10.
Sequential Lenet();
// Lenet with average pooling: no ties, so equal jobs stay equal (docs: equivalence).
Sequential LenetAvg();
// Convolution 5x5x6 relu, max-pool 2x2/2, convolution 3x3x16 relu, max-pool 2x2/2, dense 120 relu, dense 84
// relu, dense 10.
Sequential GluonLenet();

// The residual network of 20 layers for images [batch, 3, 32, 32] (He, Zhang, Ren, Sun 2016, section 4.2):
// convolution 3x3x16, then three stages of three blocks with 16, 32 and 64 channels, the later ones halving
// the image, the mean over it, dense. Each convolution is followed by BatchNorm and has no bias. Where a
// block changes the shape its shortcut is a convolution 1x1 with BatchNorm: the paper's option B. 272,474
// parameters for ten classes. Xavier(RandomType::kGaussian, FactorType::kIn, 2) is the paper's initialiser.
Sequential Resnet20(int64_t classes = 10);

// Sequences of ids [batch, length] below `vocabulary`, of which 0 is padding: the mean of the embeddings of
// their words, dense (fastText's: Joulin, Grave, Bojanowski, Mikolov 2017).
Sequential TextMean(int64_t vocabulary = 10'000, int64_t classes = 10, int64_t dim = 64);
// Sequences likewise: convolutions over windows of 3, 4 and 5 words, with zeros for padding, relu, the
// largest value of each filter over the sequence, dropout 0.5, dense (Kim 2014).
Sequential TextCnn(int64_t vocabulary = 10'000, int64_t classes = 10, int64_t dim = 64,
                   int64_t filters = 100);
// Sequences likewise: a recurrent layer over the embeddings of their words, dense of its state after the last
// word. What follows it changes nothing.
Sequential TextLstm(int64_t vocabulary = 10'000, int64_t classes = 10, int64_t dim = 64, int64_t hidden = 64);
Sequential TextGru(int64_t vocabulary = 10'000, int64_t classes = 10, int64_t dim = 64, int64_t hidden = 64);

// "mlp", "lenet", "lenet_avg", "gluon_lenet", "resnet20", "text_mean", "text_cnn", "text_lstm", "text_gru"
std::vector<std::string_view> ModelNames();
// With the sizes above. Error(kNotFound) with the names there are.
Sequential CreateModel(std::string_view name);

}  // namespace sluice::nn
