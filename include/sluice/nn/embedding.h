// Layers for sequences of ids; see sluice/nn.h.
#pragma once

#include <memory>
#include <optional>

#include "sluice/initializer.h"
#include "sluice/nn/layer.h"

namespace sluice::nn {

struct EmbeddingOptions {
  // The id, below the vocabulary, that fills a sequence after its last word. Its row of W counts as zeros,
  // whatever it holds, and gets no gradient. With nullopt every id is a word.
  std::optional<int64_t> padding = std::nullopt;
  // Whether the gradient of W is row-sparse, as with sparse_grad of MXNet and sparse of PyTorch: a step then
  // takes the time, and the gradient the memory, of the rows that a batch names, not of the vocabulary. Rows
  // that no batch names stay as they are, without weight decay or momentum (lazy updates). W stays float32.
  // In a store W is a row-sparse key (sluice/kvstore.h) that has all rows, and the optimiser's states of
  // them.
  bool sparse_grad = false;
  std::shared_ptr<const Initializer> weight_init = nullptr;  // null: the one that is passed to Initialize
};

// Maps ids [batch, ...] to their rows of W [vocabulary, dim]: [batch, ..., dim]. Ids are integers in float32,
// int32, int64 or uint8. For an id outside [0, vocabulary) the next wait throws Error(kInvalidArgument),
// which names the id and its position.
class Embedding final : public ParameterLayer {
 public:
  Embedding(int64_t vocabulary, int64_t dim, EmbeddingOptions options = {});
  NDArray Forward(const NDArray& ids) override;
  std::string_view kind() const override { return "Embedding"; }
  Parameter& weight() const { return parameter(0); }

 private:
  std::optional<int64_t> padding_;
};

// Maps ids [batch, length] to the mean of their rows of W, [batch, dim], like PyTorch's EmbeddingBag with
// mode "mean". Padding does not count, so its length has no effect; a sequence of padding only gives zeros.
class EmbeddingBag final : public ParameterLayer {
 public:
  EmbeddingBag(int64_t vocabulary, int64_t dim, EmbeddingOptions options = {});
  NDArray Forward(const NDArray& ids) override;
  std::string_view kind() const override { return "EmbeddingBag"; }
  Parameter& weight() const { return parameter(0); }

 private:
  std::optional<int64_t> padding_;
};

// The mean over all steps of a sequence: [batch, length, ...] -> [batch, ...]. It also counts padding; for
// words use EmbeddingBag, which does not.
class SequenceMean final : public PlainLayer {
 public:
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "SequenceMean"; }
};

}  // namespace sluice::nn
