// How images [n, c, h, w], and anything [n, c, ...], lie in memory. Convolutions and their neighbours are
// fastest with the channels of a pixel side by side, so their results lie so, and nothing is reordered
// between them. Whoever asks for elements without asking for the layout (DataOf, HostBytes) gets them
// row-major: they are put back in place first. A handle's shape is [n, c, h, w] all the same.
//
// Like the rest of an array, its layout changes in the order of issue.
#pragma once

#include "sluice/ndarray.h"
#include "tensor/kernels.h"
#include "tensor/storage.h"

namespace sluice::internal {

// Of [n, c, ...]; anything less is one plane.
PlanesShape PlanesOf(const Shape& shape);

// Contents undefined.
NDArray EmptyIn(ImageLayout layout, const Shape& shape, Context context);
// kChannelsLast only for whole images of a storage that lies so.
ImageLayout LayoutOf(const NDArray& array);
// `array` if it lies so, else a reordered copy. Float32; not recorded.
NDArray InLayout(const NDArray& array, ImageLayout layout);
// For those who asked for the layout: the elements as they lie.
Data<float> ImageDataOf(const NDArray& array);

}  // namespace sluice::internal
