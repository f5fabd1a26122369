// The two layouts of images, and copying images from one to the other.
#pragma once

#include <cstdint>

namespace sluice {

// How images lie in memory: as [n, c, h, w], or as [n, h, w, c].
enum class ImageLayout : uint8_t { kRowMajor, kChannelsLast };

// Planes [batch, channels, size]; size is a plane's height x width.
struct PlanesShape {
  int64_t batch = 0, channels = 0, size = 0;
};

// Copies images, which lie in the other layout, to `to`.
struct ReorderArgs {
  PlanesShape shape;
  const float* from;
  ImageLayout to_layout;
  float* to;
};

}  // namespace sluice
