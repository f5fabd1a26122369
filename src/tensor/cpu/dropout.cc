#include <algorithm>

#include "base/philox.h"
#include "base/simd.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/parallel.h"

namespace sluice::cpu {
namespace {

SLUICE_SIMD void Mask(const DropoutShape& s, int64_t row, uint8_t* kept) {
  constexpr int kBlocks = 16, kWords = 4 * kBlocks;
  const PhiloxKey key = {static_cast<uint32_t>(s.key), static_cast<uint32_t>(s.key >> 32)};
  const uint32_t threshold = s.threshold;
  const uint64_t sample = s.first_sample + static_cast<uint64_t>(row);
  for (int64_t column = 0; column < s.columns; column += kWords) {
    const auto block = static_cast<uint64_t>(column / 4);
    uint32_t words[kWords];
    PhiloxWords<kBlocks>(static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                         static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32), key, words);
    const int64_t n = std::min<int64_t>(kWords, s.columns - column);
    for (int64_t i = 0; i < n; ++i) kept[column + i] = words[i] >= threshold ? 1 : 0;
  }
}

SLUICE_SIMD void Keep(const uint8_t* kept, float scale, const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = kept[i] != 0 ? x[i] * scale : 0.0f;
}

void KeepChannelsLast(const uint8_t* kept, float scale, const float* x, float* out, int64_t channels,
                      int64_t size) {
  for (int64_t pixel = 0; pixel < size; ++pixel, x += channels, out += channels) {
    for (int64_t c = 0; c < channels; ++c) out[c] = kept[c * size + pixel] != 0 ? x[c] * scale : 0.0f;
  }
}

// Applies the row's part of the mask `kept` to a row of x.
void KeepRow(const DropoutShape& s, const uint8_t* kept, const float* x, float* out, int64_t row) {
  const int64_t at = row * s.columns;
  if (s.channels_last > 1) {
    KeepChannelsLast(kept + at, s.scale, x + at, out + at, s.channels_last, s.columns / s.channels_last);
  } else {
    Keep(kept + at, s.scale, x + at, out + at, s.columns);
  }
}

}  // namespace

void CpuKernels::Dropout(const DropoutArgs& args) {
  const DropoutShape& s = args.shape;
  ParallelFor(s.rows, PiecesWorthAThread(s.columns), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) {
      Mask(s, row, args.kept + row * s.columns);
      KeepRow(s, args.kept, args.x, args.out, row);
    }
  });
}

void CpuKernels::DropoutBackward(const DropoutBackwardArgs& args) {
  const DropoutShape& s = args.shape;
  ParallelFor(s.rows, PiecesWorthAThread(s.columns), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) KeepRow(s, args.kept, args.grad, args.grad_x, row);
  });
}

}  // namespace sluice::cpu
