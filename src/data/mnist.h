// MNIST's pairs of IDX arrays, once they are in memory.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "data/idx.h"
#include "sluice/dataset.h"

namespace sluice {

// Images [n, rows, columns] and labels [n], each 0 to 9. The origins name them in failures.
Result<std::shared_ptr<const ImageDataset>> JoinMnist(IdxArray images, std::string_view images_origin,
                                                      IdxArray labels, std::string_view labels_origin);

}  // namespace sluice
