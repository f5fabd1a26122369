#include "sluice/nn/embedding.h"

#include "autograd/ops.h"
#include "nn/require.h"

namespace sluice::nn {

namespace {

void RequireTable(std::string_view kind, int64_t vocabulary, int64_t dim, std::optional<int64_t> padding) {
  RequireAtLeast(StrCat(kind, ": the vocabulary"), vocabulary, 1);
  RequireAtLeast(StrCat(kind, ": the dimension"), dim, 1);
  if (padding && (*padding < 0 || *padding >= vocabulary))
    ThrowInvalid(StrCat(kind, ": padding is ", *padding, "; it must be an id, from 0 to ", vocabulary - 1));
}

ParameterOptions ParametersOf(const EmbeddingOptions& options) {
  return {.row_sparse = options.sparse_grad, .init = options.weight_init};
}

// Returns the table on the context of the ids, with the newest values of their rows.
NDArray TableFor(Parameter& weight, const NDArray& ids) {
  if (weight.row_sparse()) weight.rows().Fetch(ids);
  return ops::InFloat32(weight.data(ids.context()));
}

}  // namespace

Embedding::Embedding(int64_t vocabulary, int64_t dim, EmbeddingOptions options) : padding_(options.padding) {
  RequireTable(kind(), vocabulary, dim, padding_);
  AddParameter("weight", {vocabulary, dim}, ParametersOf(options));
}

NDArray Embedding::Forward(const NDArray& ids) {
  RequireArrayFor(Describe(), "its array of ids", ids);
  if (ids.shape().ndim() == 0)
    ThrowInvalid(StrCat(Describe(), " expects ids of shape [batch, ...] and got ", ids.shape()));
  if (ids.shape().ndim() == Shape::kMaxAxes)
    ThrowInvalid(
        StrCat(Describe(), " expects ids of at most ", Shape::kMaxAxes - 1, " axes and got ", ids.shape()));
  return ops::Embedding(ids, TableFor(weight(), ids), padding_);
}

EmbeddingBag::EmbeddingBag(int64_t vocabulary, int64_t dim, EmbeddingOptions options)
    : padding_(options.padding) {
  RequireTable(kind(), vocabulary, dim, padding_);
  AddParameter("weight", {vocabulary, dim}, ParametersOf(options));
}

NDArray EmbeddingBag::Forward(const NDArray& ids) {
  RequireArrayFor(Describe(), "its array of ids", ids);
  if (ids.shape().ndim() != 2)
    ThrowInvalid(StrCat(Describe(), " expects ids of shape [batch, length] and got ", ids.shape()));
  return ops::EmbeddingBag(ids, TableFor(weight(), ids), padding_);
}

NDArray SequenceMean::Forward(const NDArray& x) {
  if (x.shape().ndim() < 2 || x.shape()[1] == 0)
    ThrowInvalid(StrCat(Describe(), " expects input of shape [batch, length, ...] and got ", x.shape()));
  return ops::MeanOfSteps(x);
}

}  // namespace sluice::nn
