#include "sluice/nn/dropout.h"

#include "autograd/ops.h"
#include "base/hash.h"
#include "base/rng.h"
#include "nn/drop.h"
#include "nn/require.h"
#include "sluice/autograd.h"

namespace sluice::nn {

void RequireRate(std::string_view what, double rate) {
  if (!(rate >= 0 && rate < 1))
    ThrowInvalid(StrCat(what, " is ", rate, "; it must be at least 0 and below 1"));
}

NDArray Drop(const NDArray& x, double rate, std::string_view layer, uint64_t place) {
  if (!autograd::IsTraining() || rate == 0) return x;
  const autograd::DrawPosition at = autograd::CurrentDraw();
  return ops::Dropout(x, rate, DeriveSeed(at.seed, at.step, Fnv1a(layer) + place), at.first_sample);
}

Dropout::Dropout(double rate) : rate_(rate) {
  RequireRate("Dropout: the rate", rate);
}

NDArray Dropout::Forward(const NDArray& x) {
  if (x.shape().ndim() < 1)
    ThrowInvalid(StrCat(Describe(), " expects input of shape [batch, ...] and got ", x.shape()));
  return Drop(x, rate_, name());
}

}  // namespace sluice::nn
