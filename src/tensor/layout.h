// The memory layout of images [n, c, h, w], and of any array [n, c, ...]. Convolutions, and the layers
// between them, are fastest with the channels of a pixel side by side (kChannelsLast), so they leave their
// results in that layout and nothing is reordered between them. DataOf and HostBytes always return row-major
// elements: they reorder the storage in place first. The shape of a handle is [n, c, h, w] in both layouts.
//
// Like an array's values, its layout changes in the order in which operations are issued.
#pragma once

#include "sluice/ndarray.h"
#include "tensor/kernels/reorder.h"
#include "tensor/storage.h"

namespace sluice::internal {

// Returns the planes of a shape [n, c, ...]. An array of fewer than two axes is one plane.
PlanesShape PlanesOf(const Shape& shape);

// Returns a float32 array in `layout` with undefined contents.
NDArray EmptyIn(ImageLayout layout, const Shape& shape, Context context);
// Returns kChannelsLast if the storage of `array` has that layout and `array` consists of whole images of it,
// else kRowMajor.
ImageLayout LayoutOf(const NDArray& array);
// Returns `array` itself if it has the layout `layout`, else a reordered copy. `array`
// is float32. The tape does not record the copy.
NDArray InLayout(const NDArray& array, ImageLayout layout);
// Returns the elements in the layout that LayoutOf(array) names, without reordering them.
Data<float> ImageDataOf(const NDArray& array);

}  // namespace sluice::internal
