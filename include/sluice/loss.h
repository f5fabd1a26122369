// Losses. By default a loss returns the value of each sample, [batch], as Gluon's losses do: Backward on it
// gives gradients summed over the batch, which Trainer::Step(batch_size) divides. With Reduction::kMean it
// returns the mean of these values, [1].
//
// Losses that compare prediction and label element by element need the same shape [batch, ...] of both,
// except for axes of extent 1: labels [batch] fit predictions [batch, 1]. For shapes and labels that do not
// fit, a loss throws Error(kInvalidArgument), which names the loss and both shapes.
//
// Thread safety: immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "sluice/ndarray.h"

namespace sluice::nn {

enum class Reduction : uint8_t { kPerSample, kMean };

class Loss {
 public:
  virtual ~Loss() = default;
  // `sample_weight` [batch] multiplies the losses of the samples, before a mean is taken. If it is not an
  // array, the weights are 1.
  NDArray operator()(const NDArray& prediction, const NDArray& label,
                     const NDArray& sample_weight = NDArray()) const;
  Reduction reduction() const { return reduction_; }

 protected:
  explicit Loss(Reduction reduction) : reduction_(reduction) {}
  virtual std::string_view name() const = 0;
  virtual NDArray PerSample(const NDArray& prediction, const NDArray& label) const = 0;  // [batch]

 private:
  Reduction reduction_;
};

// -log softmax(prediction)[label], for predictions [batch, classes] before the softmax and labels [batch] of
// class numbers. Labels may also be [batch, classes], for more than one class: the probabilities q of the
// classes, for which the loss is -sum_j q_j log softmax(prediction)_j. Predictions may have axes in between:
// [batch, steps, classes], with labels [batch, steps] or probabilities of the prediction's shape. Then
// classes are the last axis, and the loss of a sample is the mean over its steps, as in Gluon, or their sum.
// With label smoothing e the q become (1 - e) q + e / classes (Szegedy et al. 2016; as in PyTorch).
class SoftmaxCrossEntropyLoss final : public Loss {
 public:
  struct Options {
    float label_smoothing = 0;  // in [0, 1]
    Reduction reduction = Reduction::kPerSample;
    // Steps of this class, such as padding, have the loss 0 and no gradient. The mean over the steps of a
    // sample counts them all the same. Labels must be class numbers.
    std::optional<int64_t> ignored_label = std::nullopt;
    bool sums_steps = false;  // the loss of a sample is the sum over its steps, not the mean
  };
  explicit SoftmaxCrossEntropyLoss(Reduction reduction = Reduction::kPerSample)
      : SoftmaxCrossEntropyLoss(Options{.reduction = reduction}) {}
  explicit SoftmaxCrossEntropyLoss(const Options& options);

 private:
  std::string_view name() const override { return "SoftmaxCrossEntropyLoss"; }
  NDArray PerSample(const NDArray& prediction, const NDArray& label) const override;
  float label_smoothing_;
  std::optional<int64_t> ignored_label_;
  bool sums_steps_;
};

// Half the squared difference, averaged over all axes but the batch, as in Gluon.
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

// d^2 / (2 rho) where the absolute difference d is at most rho, else d - rho / 2, averaged over all axes but
// the batch. This is Gluon's definition; PyTorch's is rho times that.
class HuberLoss final : public Loss {
 public:
  explicit HuberLoss(float rho = 1, Reduction reduction = Reduction::kPerSample);  // rho > 0

 private:
  std::string_view name() const override { return "HuberLoss"; }
  NDArray PerSample(const NDArray& prediction, const NDArray& label) const override;
  float rho_;
};

// The binary cross-entropy of predictions p before the sigmoid and labels l in [0, 1], averaged over all axes
// but the batch. It is computed as max(p, 0) - p l + log(1 + exp(-|p|)), which does not overflow for any p.
// Labels get no gradient.
class SigmoidBinaryCrossEntropyLoss final : public Loss {
 public:
  explicit SigmoidBinaryCrossEntropyLoss(Reduction reduction = Reduction::kPerSample) : Loss(reduction) {}

 private:
  std::string_view name() const override { return "SigmoidBinaryCrossEntropyLoss"; }
  NDArray PerSample(const NDArray& prediction, const NDArray& label) const override;
};

// Gluon's Kullback-Leibler divergence from predicted to given probabilities: l (log(l + 1e-12) - p), averaged
// over all axes but the batch; it is 0 where l is 0 and p is -infinity. With from_logits the predictions p
// are logarithms of probabilities; without it the loss applies log_softmax over the last axis first. Labels
// get no gradient.
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
