// The layers Conv2D and Conv2DTranspose.
//
// Constructors check the options, Forward the input, so that errors name the layer and what it expects;
// both throw Error(kInvalidArgument). The weight's input channels may be unknown (0) until the first
// Forward, which sets them from the input. Forward runs on the caller's thread and launches the
// operations of sluice/ops.h.
#include "sluice/nn/conv.h"

#include "autograd/ops.h"
#include "nn/activation.h"
#include "nn/require.h"

namespace sluice::nn {
namespace {

template <typename Options>
void RequireOptions(std::string_view kind, int64_t channels, const Window& kernel, const Options& options) {
  RequireAtLeast(StrCat(kind, ": the number of channels"), channels, 1);
  RequireAtLeast(StrCat(kind, ": in_channels"), options.in_channels, 0);
  RequireExtent(StrCat(kind, ": the kernel"), kernel, 1);
  RequireExtent(StrCat(kind, ": the stride"), options.stride, 1);
  RequireExtent(StrCat(kind, ": the padding"), options.padding, 0);
  RequireExtent(StrCat(kind, ": the dilation"), options.dilation, 1);
  RequireAtLeast(StrCat(kind, ": the number of groups"), options.groups, 1);
  for (const int64_t count : {channels, options.in_channels}) {
    if (count % options.groups != 0)
      ThrowInvalid(
          StrCat(kind, ": ", count, " channels cannot be cut into ", options.groups, " equal groups"));
  }
}

// The rows and columns from the first to the last that the dilated kernel touches.
Window Extent(const Window& kernel, const Window& dilation) {
  return {dilation.height * (kernel.height - 1) + 1, dilation.width * (kernel.width - 1) + 1};
}

template <typename Options>
ops::Window2D ToOps(const Window& kernel, const Options& options) {
  return {kernel.height,          kernel.width,          options.stride.height,   options.stride.width,
          options.padding.height, options.padding.width, options.dilation.height, options.dilation.width};
}

template <typename Layer>
void RequireGroups(const Layer& layer, const Shape& x, int64_t groups) {
  if (x[1] % groups == 0) return;
  ThrowInvalid(StrCat(layer,
                      " expects input of shape [batch, channels, height, width] with channels a multiple of ",
                      groups, ", its groups, and got ", x));
}

}  // namespace

Conv2D::Conv2D(int64_t channels, Window kernel, Options options)
    : WeightedLayer((RequireOptions("Conv2D", channels, kernel, options),
                     Shape{channels, options.in_channels / options.groups, kernel.height, kernel.width}),
                    channels, options.use_bias),
      channels_(channels),
      kernel_(kernel),
      options_(options) {}

NDArray Conv2D::Forward(const NDArray& x) {
  return Run(x, nullptr);
}

NDArray Conv2D::ForwardActivated(const NDArray& x, const Activation& activation) {
  const ActivationShape after = ToOps(activation);
  return after.FromOutput() ? Run(x, &activation) : ops::Activation(after, Run(x, nullptr));
}

NDArray Conv2D::Run(const NDArray& x, const Activation* activation) {
  const int64_t groups = options_.groups;
  RequireImage(Describe(), x.shape(), weight().shape()[1] * groups, Extent(kernel_, options_.dilation),
               options_.padding);
  RequireGroups(Describe(), x.shape(), groups);
  const NDArray weight = WeightFor(x, {channels_, x.shape()[1] / groups, kernel_.height, kernel_.width});
  std::optional<ActivationShape> after;
  if (activation != nullptr) after = ToOps(*activation);
  return ops::Conv2D(x, weight, BiasFor(x), ToOps(kernel_, options_), groups, after,
                     ops::ArithmeticFor(this->weight().dtype()));
}

Conv2DTranspose::Conv2DTranspose(int64_t channels, Window kernel, Options options)
    : WeightedLayer((RequireOptions("Conv2DTranspose", channels, kernel, options),
                     Shape{options.in_channels, channels / options.groups, kernel.height, kernel.width}),
                    channels, options.use_bias),
      channels_(channels),
      kernel_(kernel),
      options_(options) {
  const Window &more = options.output_padding, &stride = options.stride;
  RequireExtent("Conv2DTranspose: the output padding", more, 0);
  if (more.height >= stride.height || more.width >= stride.width) {
    ThrowInvalid(StrCat("Conv2DTranspose: the output padding ", ToString(more),
                        " must be smaller than the stride ", ToString(stride)));
  }
}

NDArray Conv2DTranspose::Forward(const NDArray& x) {
  RequireImage(Describe(), x.shape(), weight().shape()[0], 1, 0);
  RequireGroups(Describe(), x.shape(), options_.groups);
  const Window extent = Extent(kernel_, options_.dilation);
  const auto out = [&](int64_t in, int64_t stride, int64_t padding, int64_t kernel, int64_t more) {
    return (in - 1) * stride - 2 * padding + kernel + more;
  };
  const int64_t height = out(x.shape()[2], options_.stride.height, options_.padding.height, extent.height,
                             options_.output_padding.height),
                width = out(x.shape()[3], options_.stride.width, options_.padding.width, extent.width,
                            options_.output_padding.width);
  if (height < 1 || width < 1) {
    ThrowInvalid(StrCat(Describe(), " expects input that leaves an image after its padding of ",
                        ToString(options_.padding), " is cut off and got ", x.shape()));
  }
  const NDArray weight =
      WeightFor(x, {x.shape()[1], channels_ / options_.groups, kernel_.height, kernel_.width});
  return ops::Conv2DTranspose(x, weight, BiasFor(x), ToOps(kernel_, options_), options_.groups, height, width,
                              ops::ArithmeticFor(this->weight().dtype()));
}

}  // namespace sluice::nn
