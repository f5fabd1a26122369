#include "tensor/layout.h"

#include <utility>

#include "tensor/kernels.h"
#include "tensor/storage.h"

namespace sluice::internal {
namespace {

// True when both layouts put the elements in the same order: one channel, one pixel, or no image.
bool LayoutsCoincide(const PlanesShape& planes) {
  return planes.channels <= 1 || planes.size <= 1 || planes.batch == 0;
}

}  // namespace

PlanesShape PlanesOf(const Shape& shape) {
  if (shape.ndim() < 2) return {1, 1, shape.size()};
  PlanesShape planes{shape[0], shape[1], 1};
  for (size_t axis = 2; axis < shape.ndim(); ++axis) planes.size *= shape[axis];
  return planes;
}

NDArray EmptyIn(ImageLayout layout, const Shape& shape, Context context) {
  NDArray array = NDArray::Empty(shape, context);
  const PlanesShape planes = PlanesOf(shape);
  if (layout == ImageLayout::kChannelsLast && !LayoutsCoincide(planes)) {
    array.storage()->image = planes;
    array.storage()->layout = layout;
  }
  return array;
}

ImageLayout LayoutOf(const NDArray& array) {
  if (!array.valid()) return ImageLayout::kRowMajor;
  const Storage& storage = *array.storage();
  if (storage.layout == ImageLayout::kRowMajor) return ImageLayout::kRowMajor;
  const PlanesShape planes = PlanesOf(array.shape()), &image = storage.image;
  const bool whole = planes.channels == image.channels && planes.size == image.size &&
                     array.offset() % (image.channels * image.size) == 0;
  return whole ? ImageLayout::kChannelsLast : ImageLayout::kRowMajor;
}

NDArray InLayout(const NDArray& array, ImageLayout layout) {
  const PlanesShape planes = PlanesOf(array.shape());
  if (LayoutOf(array) == layout || LayoutsCoincide(planes)) return array;
  NDArray copy = EmptyIn(layout, array.shape(), array.context());
  const NDArray inputs[] = {array}, outputs[] = {copy};
  Launch("reorder", array.context(), inputs, outputs,
         [planes, layout, from = ImageDataOf(array), to = ImageDataOf(copy)](Kernels& k) {
           k.Reorder({.shape = planes, .from = from, .to_layout = layout, .to = to});
         });
  return copy;
}

void MakeRowMajor(const NDArray& array) {
  Storage& storage = *array.storage();
  const PlanesShape planes = std::exchange(storage.image, {});
  storage.layout = ImageLayout::kRowMajor;
  const int64_t size = planes.batch * planes.channels * planes.size;
  NDArray reordered = NDArray::Empty({size}, storage.context);
  const NDArray inputs[] = {array}, outputs[] = {array, reordered};
  Launch("reorder", storage.context, inputs, outputs,
         [planes, size, data = Data<float>(storage, 0), to = DataOf(reordered)](Kernels& k) {
           k.Reorder({.shape = planes, .from = data, .to_layout = ImageLayout::kRowMajor, .to = to});
           k.Copy({.from = to, .to = data, .bytes = static_cast<size_t>(size) * sizeof(float)});
         });
  storage.writes.fetch_sub(1, std::memory_order_relaxed);  // Launch counted a write, but no value changes
}

Data<float> ImageDataOf(const NDArray& array) {
  if (LayoutOf(array) == ImageLayout::kRowMajor) return DataOf(array);
  return {*array.storage(), static_cast<size_t>(array.offset()) * sizeof(float)};
}

}  // namespace sluice::internal
