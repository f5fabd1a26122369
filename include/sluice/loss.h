// Losses. By default the value of each sample, [batch] (as Gluon's): Backward on it gives gradients summed
// over the batch, which Trainer::Step(batch_size) divides. With Reduction::kMean the mean of those, [1].
//
// Where prediction and label are compared element by element they have the same shape [batch, ...], but for
// axes of extent 1: labels [batch] fit predictions [batch, 1]. Shapes and labels that do not fit are
// Error(kInvalidArgument) naming the loss and both shapes.
//
// Thread safety: immutable.
#pragma once

#include <cstdint>
#include <string_view>

#include "sluice/ndarray.h"

namespace sluice::nn {

enum class Reduction : uint8_t { kPerSample, kMean };

class Loss {
 public:
  virtual ~Loss() = default;
  // sample_weight [batch] multiplies the samples' losses, before their mean is taken; no array: 1 each.
  NDArray operator()(const NDArray& prediction, const NDArray& label,
                     const NDArray& sample_weight = NDArray()) const;

 protected:
  explicit Loss(Reduction reduction) : reduction_(reduction) {}
  virtual std::string_view name() const = 0;
  virtual NDArray PerSample(const NDArray& prediction, const NDArray& label) const = 0;  // [batch]

 private:
  Reduction reduction_;
};

// -log softmax(prediction)[label]: prediction [batch, classes] before the softmax, label [batch] class
// numbers. Or label [batch, classes], of more than one class: the probabilities q of each, and -sum_j q_j log
// softmax(prediction)_j. Predictions may have axes between, [batch, steps, classes] with labels [batch,
// steps] or probabilities of the prediction's shape: classes are the last axis, and a sample's loss is the
// mean over its steps, as Gluon's. With label smoothing e the q become (1 - e) q + e / classes (Szegedy et
// al. 2016; PyTorch's).
class SoftmaxCrossEntropyLoss final : public Loss {
 public:
  struct Options {
    float label_smoothing = 0;  // in [0, 1]
    Reduction reduction = Reduction::kPerSample;
  };
  explicit SoftmaxCrossEntropyLoss(Reduction reduction = Reduction::kPerSample)
      : SoftmaxCrossEntropyLoss(Options{.reduction = reduction}) {}
  explicit SoftmaxCrossEntropyLoss(const Options& options);

 private:
  std::string_view name() const override { return "SoftmaxCrossEntropyLoss"; }
  NDArray PerSample(const NDArray& prediction, const NDArray& label) const override;
  float label_smoothing_;
};

// Gluon's: half the squared difference, averaged over all axes but the batch.
class L2Loss final : public Loss {
 public:
  explicit L2Loss(Reduction reduction = Reduction::kPerSample) : Loss(reduction) {}

 private:
  std::string_view name() const override { return "L2Loss"; }
  NDArray PerSample(const NDArray& prediction, const NDArray& label) const override;
};

// The absolute difference (gradient 0 at 0), averaged over all axes but the batch.
class L1Loss final : public Loss {
 public:
  explicit L1Loss(Reduction reduction = Reduction::kPerSample) : Loss(reduction) {}

 private:
  std::string_view name() const override { return "L1Loss"; }
  NDArray PerSample(const NDArray& prediction, const NDArray& label) const override;
};

// Gluon's: d^2 / (2 rho) where the absolute difference d is at most rho, else d - rho / 2 (PyTorch's is rho
// times that); averaged over all axes but the batch.
class HuberLoss final : public Loss {
 public:
  explicit HuberLoss(float rho = 1, Reduction reduction = Reduction::kPerSample);  // rho > 0

 private:
  std::string_view name() const override { return "HuberLoss"; }
  NDArray PerSample(const NDArray& prediction, const NDArray& label) const override;
  float rho_;
};

// Of predictions before the sigmoid and labels in [0, 1]: max(p, 0) - p l + log(1 + exp(-|p|)), which no
// score overflows; averaged over all axes but the batch. Labels get no gradient.
class SigmoidBinaryCrossEntropyLoss final : public Loss {
 public:
  explicit SigmoidBinaryCrossEntropyLoss(Reduction reduction = Reduction::kPerSample) : Loss(reduction) {}

 private:
  std::string_view name() const override { return "SigmoidBinaryCrossEntropyLoss"; }
  NDArray PerSample(const NDArray& prediction, const NDArray& label) const override;
};

// Gluon's Kullback-Leibler divergence from predicted to given probabilities: l (log(l + 1e-12) - p), which
// is 0 where l is 0 and p -infinity, averaged over all axes but the batch. With from_logits the predictions
// are logarithms of probabilities; without it log_softmax over the last axis is taken first. Labels get no
// gradient.
class KLDivLoss final : public Loss {
 public:
  explicit KLDivLoss(bool from_logits = true, Reduction reduction = Reduction::kPerSample)
      : Loss(reduction), from_logits_(from_logits) {}

 private:
  std::string_view name() const override { return "KLDivLoss"; }
  NDArray PerSample(const NDArray& prediction, const NDArray& label) const override;
  bool from_logits_;
};

}  // namespace sluice::nn
