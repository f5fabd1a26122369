// Normalisation layers; see sluice/nn.h.
#pragma once

#include "sluice/nn/layer.h"

namespace sluice::nn {

// Batch normalisation (Ioffe, Szegedy 2015) of x [batch, channels, ...], over all axes but that of the
// channels: y = (x - mean) / sqrt(variance + epsilon) gamma + beta.
//
// While autograd::IsTraining(), mean and (biased) variance are those of the batch on this context. They
// update the running statistics: running = momentum running + (1 - momentum) batch, where the variance is the
// unbiased one, as in the paper, in PyTorch (whose momentum is 1 minus this one) and in cuDNN. When not
// training, the running statistics normalise x. A batch of 0 rows changes nothing. A batch with one value for
// each channel has no unbiased variance and leaves the running variance unchanged.
//
// The parameters are "gamma", "beta" (without weight decay), "running_mean" and "running_var". The running
// statistics have no gradient: a store never sums them, and a Trainer copies rank 0's values to all workers
// once, when it is made. From then on each context of each rank has the statistics of its own samples, so the
// statement that n workers train like one does not include them. SaveParameters writes the mean over the
// contexts of its process.
class BatchNorm final : public ParameterLayer {
 public:
  struct Options {
    double momentum = 0.9;          // in [0, 1]
    double epsilon = 1e-5;          // > 0
    bool center = true;             // whether there is beta
    bool scale = true;              // whether there is gamma
    bool use_global_stats = false;  // also uses the running statistics in training, and leaves them unchanged
    int64_t in_channels = 0;        // 0: taken from the first input
  };
  BatchNorm() : BatchNorm(Options()) {}
  explicit BatchNorm(Options options);
  NDArray Forward(const NDArray& x) override { return Run(x, false, {}); }
  // Returns max(Forward(x), 0), or max(Forward(x) + addend, 0) with an addend of the same shape, in one pass.
  NDArray ForwardRelu(const NDArray& x, const NDArray& addend = {}) { return Run(x, true, addend); }
  std::string_view kind() const override { return "BatchNorm"; }

 private:
  NDArray Run(const NDArray& x, bool relu, const NDArray& addend);
  Options options_;
};

// Layer normalisation (Ba, Kiros, Hinton 2016) of x [batch, ..., channels] over the last axis, with the
// biased variance: y = (x - mean) / sqrt(variance + epsilon) gamma + beta. The parameters are "gamma" and
// "beta", [channels], without weight decay.
class LayerNorm final : public ParameterLayer {
 public:
  struct Options {
    double epsilon = 1e-5;    // > 0
    bool center = true;       // whether there is beta
    bool scale = true;        // whether there is gamma
    int64_t in_channels = 0;  // 0: taken from the first input
  };
  LayerNorm() : LayerNorm(Options()) {}
  explicit LayerNorm(Options options);
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "LayerNorm"; }

 private:
  Options options_;
};

}  // namespace sluice::nn
