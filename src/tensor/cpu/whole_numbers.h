// Reading arrays of whole numbers, such as ids and lengths, of any type that may hold them.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/strings.h"
#include "sluice/dtype.h"
#include "tensor/with_numbers.h"

namespace sluice::cpu {

// Replaces the contents of `numbers` by the n values. For a value that is no whole number in [0, end)
// it calls refuse(value, place), which has to throw.
template <typename ThrowInvalid>
void ReadWholeNumbers(DType dtype, const void* values, int64_t n, int64_t end, std::vector<int64_t>* numbers,
                      ThrowInvalid refuse) {
  numbers->clear();
  numbers->reserve(static_cast<size_t>(n));
  WithNumbers(dtype, values, [&]<typename T>(const T* typed) {
    for (int64_t i = 0; i < n; ++i) {
      const T value = typed[i];
      bool fits = value >= 0 && static_cast<double>(value) < static_cast<double>(end);
      if constexpr (std::is_floating_point_v<T>) fits = fits && value == std::floor(value);
      if (!fits) refuse(StrCat(+value), i);
      numbers->push_back(static_cast<int64_t>(value));
    }
  });
}

}  // namespace sluice::cpu
