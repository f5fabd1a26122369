// The dropout layer; see sluice/nn.h.
#pragma once

#include "sluice/nn/layer.h"

namespace sluice::nn {

// While autograd::IsTraining(), each element becomes 0 with probability `rate` and x / (1 - rate) otherwise
// (Srivastava et al. 2014, in the "inverted" form). When not training, the layer returns x itself.
//
// Which elements are dropped is a pure function of autograd::DrawPosition (seed, step, first sample), the
// row, the layer's name and the element. So k devices and n workers drop the same elements as a single device
// (autograd::SampleScope). Two layers of the same name, and a layer that is used twice in a forward, drop the
// same elements.
class Dropout final : public PlainLayer {
 public:
  explicit Dropout(double rate);  // in [0, 1)
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "Dropout"; }

 private:
  double rate_;
};

}  // namespace sluice::nn
