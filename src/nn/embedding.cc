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

}  // namespace

Embedding::Embedding(int64_t vocabulary, int64_t dim, EmbeddingOptions options) : padding_(options.padding) {
  RequireTable(kind(), vocabulary, dim, padding_);
  AddParameter("weight", {vocabulary, dim}, {.init = std::move(options.weight_init)});
}

NDArray Embedding::Forward(const NDArray& ids) {
  RequireArrayFor(Describe(), "its array of ids", ids);
  if (ids.shape().ndim() == 0)
    ThrowInvalid(StrCat(Describe(), " expects ids of shape [batch, ...] and got ", ids.shape()));
  if (ids.shape().ndim() == Shape::kMaxAxes)
    ThrowInvalid(
        StrCat(Describe(), " expects ids of at most ", Shape::kMaxAxes - 1, " axes and got ", ids.shape()));
  return ops::Embedding(ids, ops::InFloat32(weight().data(ids.context())), padding_);
}

EmbeddingBag::EmbeddingBag(int64_t vocabulary, int64_t dim, EmbeddingOptions options)
    : padding_(options.padding) {
  RequireTable(kind(), vocabulary, dim, padding_);
  AddParameter("weight", {vocabulary, dim}, {.init = std::move(options.weight_init)});
}

NDArray EmbeddingBag::Forward(const NDArray& ids) {
  RequireArrayFor(Describe(), "its array of ids", ids);
  if (ids.shape().ndim() != 2)
    ThrowInvalid(StrCat(Describe(), " expects ids of shape [batch, length] and got ", ids.shape()));
  return ops::EmbeddingBag(ids, ops::InFloat32(weight().data(ids.context())), padding_);
}

NDArray SequenceMean::Forward(const NDArray& x) {
  if (x.shape().ndim() < 2 || x.shape()[1] == 0)
    ThrowInvalid(StrCat(Describe(), " expects input of shape [batch, length, ...] and got ", x.shape()));
  return ops::MeanOfSteps(x);
}

}  // namespace sluice::nn
