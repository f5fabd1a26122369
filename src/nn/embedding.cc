#include "sluice/nn/embedding.h"

#include "autograd/ops.h"
#include "nn/require.h"

namespace sluice::nn {

Embedding::Embedding(int64_t vocabulary, int64_t dim, std::shared_ptr<const Initializer> weight_init) {
  RequireAtLeast("Embedding: the vocabulary", vocabulary, 1);
  RequireAtLeast("Embedding: the dimension", dim, 1);
  AddParameter("weight", {vocabulary, dim}, {.init = std::move(weight_init)});
}

NDArray Embedding::Forward(const NDArray& ids) {
  if (ids.shape().ndim() == 0)
    Refuse(StrCat(Describe(), " expects ids of shape [batch, ...] and got ", ids.shape()));
  if (ids.shape().ndim() == Shape::kMaxAxes)
    Refuse(
        StrCat(Describe(), " expects ids of at most ", Shape::kMaxAxes - 1, " axes and got ", ids.shape()));
  return ops::Embedding(ids, ops::InFloat32(weight().data(ids.context())));
}

NDArray SequenceMean::Forward(const NDArray& x) {
  if (x.shape().ndim() < 2 || x.shape()[1] == 0)
    Refuse(StrCat(Describe(), " expects input of shape [batch, length, ...] and got ", x.shape()));
  return ops::MeanOfSteps(x);
}

}  // namespace sluice::nn
