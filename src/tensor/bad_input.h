// The errors of kernels whose inputs hold a label, an id or a length that is out of range.
#pragma once

#include <cstdint>
#include <string_view>

#include "sluice/error.h"

namespace sluice {

Error BadLabel(std::string_view label, int64_t row, int64_t classes);
Error BadId(std::string_view id, int64_t place, int64_t rows);
Error BadLength(std::string_view length, int64_t sequence, int64_t steps);

}  // namespace sluice
