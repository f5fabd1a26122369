// Losses. By default the value of each sample, [batch] (as Gluon's): Backward on it gives gradients summed
// over the batch, which Trainer::Step(batch_size) divides. With Reduction::kMean the mean of those, [1].
//
// Shapes and labels that do not fit are Error(kInvalidArgument) naming the loss and both shapes.
//
// Thread safety: immutable.
#pragma once

#include <cstdint>

#include "sluice/ndarray.h"

namespace sluice::nn {

enum class Reduction : uint8_t { kPerSample, kMean };

class Loss {
 public:
  virtual ~Loss() = default;
  virtual NDArray operator()(const NDArray& prediction, const NDArray& label) const = 0;
};

// -log softmax(prediction)[label]: prediction [batch, classes] before the softmax, label [batch] class
// numbers.
class SoftmaxCrossEntropyLoss final : public Loss {
 public:
  explicit SoftmaxCrossEntropyLoss(Reduction reduction = Reduction::kPerSample) : reduction_(reduction) {}
  NDArray operator()(const NDArray& prediction, const NDArray& label) const override;

 private:
  Reduction reduction_;
};

// Gluon's: half the squared difference, averaged over all axes but the batch. Both of the same shape.
class L2Loss final : public Loss {
 public:
  explicit L2Loss(Reduction reduction = Reduction::kPerSample) : reduction_(reduction) {}
  NDArray operator()(const NDArray& prediction, const NDArray& label) const override;

 private:
  Reduction reduction_;
};

}  // namespace sluice::nn
