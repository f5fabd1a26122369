// Joins MNIST's pairs of IDX arrays, which are in memory.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "data/idx.h"
#include "sluice/dataset.h"

namespace sluice {

// Makes a dataset of images [n, rows, columns] and labels [n]. A failure is kDataLoss for arrays of
// other axes or numbers and for a label outside 0 to 9; it names them by their origins.
Result<std::shared_ptr<const ImageDataset>> JoinMnist(IdxArray images, std::string_view images_origin,
                                                      IdxArray labels, std::string_view labels_origin);

}  // namespace sluice
