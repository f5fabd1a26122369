// Normalisation: sluice/nn.h.
#pragma once

#include "sluice/nn/layer.h"

namespace sluice::nn {

// Batch normalisation (Ioffe, Szegedy 2015) of x [batch, channels, ...], over all axes but the channels':
// y = (x - mean) / sqrt(variance + epsilon) gamma + beta.
//
// While autograd::IsTraining() mean and variance (the biased one) are those of the batch on this context, and
// go into the running statistics: running = momentum running + (1 - momentum) batch's, with the unbiased
// variance, as in the paper, PyTorch (whose momentum is 1 minus this one) and cuDNN. Else the running
// statistics normalise. A batch of 0 rows changes nothing; one value for each channel has no variance, and
// leaves the running one alone.
//
// Parameters "gamma", "beta" (no weight decay), "running_mean", "running_var". The running statistics have no
// gradient: a store never sums them, and a Trainer brings rank 0's values to all once, when it is made. From
// then on every context of every rank holds those of the samples that it saw itself, so they are outside the
// promise that n workers equal one. SaveParameters writes the mean over the contexts of its process.
class BatchNorm final : public ParameterLayer {
 public:
  struct Options {
    double momentum = 0.9;          // in [0, 1]
    double epsilon = 1e-5;          // > 0
    bool center = true;             // with beta
    bool scale = true;              // with gamma
    bool use_global_stats = false;  // the running statistics in training too, unchanged
    int64_t in_channels = 0;        // 0: from the first input
  };
  BatchNorm() : BatchNorm(Options()) {}
  explicit BatchNorm(Options options);
  NDArray Forward(const NDArray& x) override { return Run(x, false, {}); }
  // In one pass: max(Forward(x), 0), and max(Forward(x) + addend, 0) with an addend of the same shape.
  NDArray ForwardRelu(const NDArray& x, const NDArray& addend = {}) { return Run(x, true, addend); }
  std::string_view kind() const override { return "BatchNorm"; }

 private:
  NDArray Run(const NDArray& x, bool relu, const NDArray& addend);
  Options options_;
};

// Layer normalisation (Ba, Kiros, Hinton 2016) of x [batch, ..., channels] over the last axis, with the
// biased variance: y = (x - mean) / sqrt(variance + epsilon) gamma + beta. Parameters "gamma", "beta"
// [channels], no weight decay.
class LayerNorm final : public ParameterLayer {
 public:
  struct Options {
    double epsilon = 1e-5;    // > 0
    bool center = true;       // with beta
    bool scale = true;        // with gamma
    int64_t in_channels = 0;  // 0: from the first input
  };
  LayerNorm() : LayerNorm(Options()) {}
  explicit LayerNorm(Options options);
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "LayerNorm"; }

 private:
  Options options_;
};

}  // namespace sluice::nn
