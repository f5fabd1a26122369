// CIFAR-10's binary files (https://www.cs.toronto.edu/~kriz/cifar.html): records of one byte of label and
// 3072 bytes of pixels, the red plane, the green and the blue, each of 32 rows of 32.
//
// Nothing here throws; a failure says which file, record and byte, what was found and what was expected.
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

inline constexpr int64_t kCifar10BatchImages = 10'000;  // in every published file

// Appends the images of `bytes` to `batch`. `origin` names the bytes in failures.
Status AppendCifar10(Bytes bytes, std::string_view origin, Cifar10Batch* batch,
                     int64_t images = kCifar10BatchImages);

}  // namespace sluice
