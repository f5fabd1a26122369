// Activations, which are applied to each element.
#pragma once

#include <compare>
#include <cstdint>

namespace sluice {

enum class ActivationKind : uint8_t {
  kRelu,
  kTanh,
  kSigmoid,
  kLeakyRelu,
  kElu,
  kGelu,
  kSoftplus,
  kSilu,
  kSoftsign,
  kLogSigmoid,
  kMish
};

struct ActivationShape {
  ActivationKind kind = ActivationKind::kRelu;
  float alpha = 0;  // for kLeakyRelu and kElu; at least 0
  // Whether the derivative is computed from the output y; else it is computed from the input x.
  bool FromOutput() const { return kind <= ActivationKind::kElu; }
  auto operator<=>(const ActivationShape&) const = default;
};

struct ActivationArgs {
  ActivationShape shape;
  const float* x;
  float* out;  // may be x
  int64_t n;
};

struct ActivationBackwardArgs {
  ActivationShape shape;
  const float* kept;  // the output if shape.FromOutput(), else the input
  const float* grad;
  float* grad_x;
  int64_t n;
};

}  // namespace sluice
