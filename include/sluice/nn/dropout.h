// Dropout: sluice/nn.h.
#pragma once

#include "sluice/nn/layer.h"

namespace sluice::nn {

// While autograd::IsTraining(), each element is 0 with probability `rate` and else x / (1 - rate) (Srivastava
// et al. 2014, "inverted"); otherwise x itself.
//
// What is dropped is a pure function of autograd::DrawPosition (seed, step, first sample), the row, the
// layer's name and the element: k devices and n workers drop what one device would (sluice/autograd.h:
// SampleScope). Two layers of the same name, and one layer that is used twice in a forward, drop the same
// elements.
class Dropout final : public PlainLayer {
 public:
  explicit Dropout(double rate);  // in [0, 1)
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "Dropout"; }

 private:
  double rate_;
};

}  // namespace sluice::nn
