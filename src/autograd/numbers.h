// Whole numbers, such as ids of rows, between arrays and the host, without waiting for a device's other work.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/ndarray.h"

namespace sluice {

// Returns the elements of an array of int64, int32, uint8 or float32 as whole numbers; fractions are cut off,
// and -1 stands for what is no number of 64 bits. Waits for the array's last write alone.
std::vector<int64_t> ReadNumbers(const NDArray& array);
// Returns an array of int64 of that shape, in pinned memory. `numbers` has as many elements as the shape.
NDArray NumberArray(const std::vector<int64_t>& numbers, const Shape& shape);
NDArray NumberArray(const std::vector<int64_t>& numbers);  // its shape is {n}

}  // namespace sluice
