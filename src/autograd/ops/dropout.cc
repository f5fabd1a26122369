#include <cmath>

#include "autograd/ops/common.h"

namespace sluice::ops {

NDArray Dropout(const NDArray& x, double rate, uint64_t key, uint64_t first_sample) {
  constexpr std::string_view kWhat = "Dropout";
  RequireTogether(kWhat, {&x});
  if (x.shape().ndim() < 1) ThrowInvalid(kWhat, "a scalar has no batch axis");
  if (!(rate >= 0 && rate < 1))
    ThrowInvalid(kWhat, StrCat("the rate is ", rate, "; it must be at least 0 and below 1"));
  DropoutShape shape{.rows = x.shape()[0], .key = key, .first_sample = first_sample};
  shape.columns = shape.rows == 0 ? 0 : x.size() / shape.rows;
  shape.threshold = static_cast<uint32_t>(std::min(std::round(rate * 0x1p32), 0x1p32 - 1));
  shape.scale = static_cast<float>(1 / (1 - rate));
  const ImageLayout layout = LayoutOf(x);
  if (layout == ImageLayout::kChannelsLast) shape.channels_last = x.shape()[1];
  NDArray out = EmptyIn(layout, x.shape(), x.context()),
          kept = NDArray::Empty(x.shape(), x.context(), DType::kUInt8);
  LaunchOn(kWhat, x.context(), {x}, {out, kept},
           [shape, px = ImageDataOf(x), po = ImageDataOf(out), pk = DataOf<uint8_t>(kept)](Kernels& k) {
             k.Dropout({.shape = shape, .x = px, .out = po, .kept = pk});
           });
  Record(out, {&x}, [kept, shape, layout](const NDArray& grad, std::vector<NDArray>& to) {
    const NDArray images = InLayout(grad, layout);
    ImageTarget target(to[0], layout, grad.shape(), grad.context());
    LaunchOn("Dropout backward", grad.context(), {kept, images}, {target.images()},
             [shape, pk = DataOf<uint8_t>(kept), pg = ImageDataOf(images), gx = target.data()](Kernels& k) {
               k.DropoutBackward({.shape = shape, .kept = pk, .grad = pg, .grad_x = gx});
             });
    target.Finish();
  });
  return out;
}

}  // namespace sluice::ops
