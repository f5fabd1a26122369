// CIFAR-10's binary files (https://www.cs.toronto.edu/~kriz/cifar.html). A record is one byte of label
// and 3072 bytes of pixels: the red, green and blue planes, each of 32 rows of 32.
//
// The functions do not throw; a failure names file, record and byte, what was found and what was expected.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"

namespace sluice {

struct Cifar10Batch {
  std::vector<uint8_t> pixels;  // 3072 for each label
  std::vector<uint8_t> labels;  // 0 to 9
};

inline constexpr int64_t kCifar10BatchImages = 10'000;  // images in every published file

// Appends the images of `bytes`, which must be exactly `images` records, to `batch`. `origin` names the bytes
// in failures.
Status AppendCifar10(Bytes bytes, std::string_view origin, Cifar10Batch* batch,
                     int64_t images = kCifar10BatchImages);

}  // namespace sluice
