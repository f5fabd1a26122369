// Layers that work on vectors; see sluice/nn.h.
#pragma once

#include "sluice/nn/layer.h"

namespace sluice::nn {

// y = x W^T + b with W [units, in_units]; x [batch, ...] is flattened to [batch, in_units]. Without
// `flatten`, as with Gluon's flatten=False, the last axis alone is multiplied: [..., in_units] -> [...,
// units].
class Dense final : public WeightedLayer {
 public:
  struct Options {
    bool use_bias = true;
    int64_t in_units = 0;  // 0: taken from the first input
    bool flatten = true;
  };
  explicit Dense(int64_t units) : Dense(units, Options()) {}
  Dense(int64_t units, Options options);
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "Dense"; }

 private:
  int64_t units_;
  bool flatten_;
};

// Reshapes [batch, ...] to [batch, product of the rest], in the order channel, height, width.
class Flatten final : public PlainLayer {
 public:
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "Flatten"; }
};

}  // namespace sluice::nn
