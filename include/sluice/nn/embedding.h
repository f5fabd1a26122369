// Sequences of ids: sluice/nn.h.
#pragma once

#include <memory>
#include <optional>

#include "sluice/initializer.h"
#include "sluice/nn/layer.h"

namespace sluice::nn {

struct EmbeddingOptions {
  // The id of what stands where a text has no more words: its row of W counts as zeros, whatever it holds,
  // and has no gradient. One below vocabulary; none: every id is a word.
  std::optional<int64_t> padding = std::nullopt;
  std::shared_ptr<const Initializer> weight_init = nullptr;  // null: the one handed to Initialize
};

// ids [batch, ...] -> their rows of W [vocabulary, dim], [batch, ..., dim]. Ids are whole numbers in float32,
// int32, int64 or uint8; one outside [0, vocabulary) is an Error(kInvalidArgument) at the next wait, which
// names the id and its place. The gradient of W is dense: every row of it is sent.
class Embedding final : public ParameterLayer {
 public:
  Embedding(int64_t vocabulary, int64_t dim, EmbeddingOptions options = {});
  NDArray Forward(const NDArray& ids) override;
  std::string_view kind() const override { return "Embedding"; }
  Parameter& weight() const { return parameter(0); }

 private:
  std::optional<int64_t> padding_;
};

// ids [batch, length] -> the mean of their rows of W, [batch, dim]: PyTorch's EmbeddingBag of mode "mean".
// Padding does not count, so how far a text is padded changes nothing; a text of padding alone gives zeros.
class EmbeddingBag final : public ParameterLayer {
 public:
  EmbeddingBag(int64_t vocabulary, int64_t dim, EmbeddingOptions options = {});
  NDArray Forward(const NDArray& ids) override;
  std::string_view kind() const override { return "EmbeddingBag"; }
  Parameter& weight() const { return parameter(0); }

 private:
  std::optional<int64_t> padding_;
};

// The mean over all steps of a sequence: [batch, length, ...] -> [batch, ...]. Of words: EmbeddingBag, which
// knows padding.
class SequenceMean final : public PlainLayer {
 public:
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "SequenceMean"; }
};

}  // namespace sluice::nn
