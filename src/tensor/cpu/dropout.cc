#include "tensor/cpu/dropout.h"

#include <algorithm>

#include "base/philox.h"
#include "base/simd.h"

namespace sluice::cpu {

SLUICE_SIMD void DropoutRows(const DropoutShape& s, const float* x, float* out, uint8_t* kept, int64_t first,
                             int64_t last) {
  constexpr int kBlocks = 16, kWords = 4 * kBlocks;
  const PhiloxKey key = {static_cast<uint32_t>(s.key), static_cast<uint32_t>(s.key >> 32)};
  const uint32_t threshold = s.threshold;
  const float scale = s.scale;
  for (int64_t row = first; row < last; ++row) {
    const uint64_t sample = s.first_sample + static_cast<uint64_t>(row);
    for (int64_t column = 0; column < s.columns; column += kWords) {
      const auto block = static_cast<uint64_t>(column / 4);
      uint32_t words[kWords];
      PhiloxWords<kBlocks>(static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                           static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32), key, words);
      const int64_t at = row * s.columns + column, n = std::min<int64_t>(kWords, s.columns - column);
      for (int64_t i = 0; i < n; ++i) {
        const bool keep = words[i] >= threshold;
        kept[at + i] = keep ? 1 : 0;
        out[at + i] = keep ? x[at + i] * scale : 0.0f;
      }
    }
  }
}

SLUICE_SIMD void DropoutBackward(const uint8_t* kept, float scale, const float* grad, float* grad_x,
                                 int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = kept[i] != 0 ? grad[i] * scale : 0.0f;
}

}  // namespace sluice::cpu
