// Sequences of ids: sluice/nn.h.
#pragma once

#include <memory>

#include "sluice/initializer.h"
#include "sluice/nn/layer.h"

namespace sluice::nn {

// ids [batch, ...] -> their rows of W [vocabulary, dim], [batch, ..., dim]. Ids are whole numbers in float32,
// int32, int64 or uint8; one outside [0, vocabulary) is an Error(kInvalidArgument) at the next wait, which
// names the id and its place. The gradient of W is dense: every row of it is sent.
class Embedding final : public ParameterLayer {
 public:
  // weight_init: null for the one handed to Initialize.
  Embedding(int64_t vocabulary, int64_t dim, std::shared_ptr<const Initializer> weight_init = nullptr);
  NDArray Forward(const NDArray& ids) override;
  std::string_view kind() const override { return "Embedding"; }
  Parameter& weight() const { return parameter(0); }
};

// The mean over a sequence: [batch, length, ...] -> [batch, ...].
class SequenceMean final : public PlainLayer {
 public:
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "SequenceMean"; }
};

}  // namespace sluice::nn
