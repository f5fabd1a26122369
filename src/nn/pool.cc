#include "sluice/nn/pool.h"

#include "autograd/ops.h"
#include "nn/require.h"

namespace sluice::nn {
namespace {

ops::Window2D ToOps(const Window& window, const Window& stride, const Window& padding) {
  return {window.height, window.width, stride.height, stride.width, padding.height, padding.width};
}

}  // namespace

Pool2D::Pool2D(std::string_view kind, Window window, Window stride, Window padding)
    : window_(window), stride_(stride), padding_(padding) {
  RequireExtent(StrCat(kind, ": the window"), window, 1);
  RequireExtent(StrCat(kind, ": the stride"), stride, 1);
  RequireExtent(StrCat(kind, ": the padding"), padding, 0);
  if (padding.height >= window.height || padding.width >= window.width) {
    ThrowInvalid(StrCat(kind, ": the padding ", ToString(padding), " must be smaller than the window ",
                        ToString(window)));
  }
}

NDArray Pool2D::Forward(const NDArray& x) {
  RequireImage(Describe(), x.shape(), 0, window_, padding_);
  return Pool(x);
}

NDArray GlobalAvgPool2D::Forward(const NDArray& x) {
  RequireImage(Describe(), x.shape(), 0, 1, 0);
  return ops::AvgPool2D(x, {.height = x.shape()[2], .width = x.shape()[3]});
}

NDArray GlobalMaxPool2D::Forward(const NDArray& x) {
  RequireImage(Describe(), x.shape(), 0, 1, 0);
  return ops::MaxPool2D(x, {.height = x.shape()[2], .width = x.shape()[3]});
}

NDArray MaxPool2D::Pool(const NDArray& x) const {
  return ops::MaxPool2D(x, ToOps(window_, stride_, padding_));
}

NDArray AvgPool2D::Pool(const NDArray& x) const {
  return ops::AvgPool2D(x, ToOps(window_, stride_, padding_));
}

}  // namespace sluice::nn
