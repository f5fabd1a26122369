// Pooling of images [h, w, c], whose channels lie side by side; pool.cc has the row-major layout. Loops over
// few channels vectorise badly, so beside the plain version there is one with AVX-512's masks, which is taken
// where the processor has them. Both do the same operations to every element. pool.cc calls PoolImages and
// PoolImagesBackward for ranges of images, on the threads of the context's team: a call writes its own images
// only.
#include <algorithm>
#include <cstring>

#include "base/simd.h"
#include "tensor/cpu/pool.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define SLUICE_MASKED __attribute__((target("avx512f")))
#endif

namespace sluice::cpu {
namespace {

// The part of a window that lies inside its image, without padding.
struct Place {
  int64_t row, row_end, column, column_end;
};

inline __attribute__((always_inline)) Place PlaceOf(const PoolShape& s, int64_t i, int64_t j) {
  const WindowShape& w = s.window;
  const int64_t row = i * w.stride_height - w.pad_height, column = j * w.stride_width - w.pad_width;
  return {std::max<int64_t>(row, 0), std::min(row + w.height, s.in_height), std::max<int64_t>(column, 0),
          std::min(column + w.width, s.in_width)};
}

float ShareOf(const PoolShape& s) {
  return 1.0f / static_cast<float>(s.window.height * s.window.width);
}

// True if every input belongs to exactly one window, so that its gradient is written once. Otherwise
// the gradients are set to zero first and added up.
bool WindowsTile(const PoolShape& s) {
  const WindowShape& w = s.window;
  return w.stride_height == w.height && w.stride_width == w.width && w.pad_height == 0 && w.pad_width == 0 &&
         s.in_height % w.height == 0 && s.in_width % w.width == 0;
}

// Computes one pixel of the output, all its channels. A later NaN replaces
// the maximum, so the last one is taken.
void MaxPixel(const PoolShape& s, const Place& p, const float* x, float* out, int32_t* where) {
  for (int64_t c = 0; c < s.in_channels; ++c) {
    int64_t best = p.row * s.in_width + p.column;
    for (int64_t row = p.row; row < p.row_end; ++row) {
      for (int64_t column = p.column; column < p.column_end; ++column) {
        const int64_t at = row * s.in_width + column;
        const float value = x[at * s.in_channels + c];
        if (value > x[best * s.in_channels + c] || value != value) best = at;
      }
    }
    out[c] = x[best * s.in_channels + c];
    where[c] = static_cast<int32_t>(best);
  }
}

void AveragePixel(const PoolShape& s, const Place& p, float share, const float* x, float* out) {
  for (int64_t c = 0; c < s.in_channels; ++c) {
    float sum = 0;
    for (int64_t row = p.row; row < p.row_end; ++row) {
      for (int64_t column = p.column; column < p.column_end; ++column)
        sum += x[(row * s.in_width + column) * s.in_channels + c];
    }
    out[c] = sum * share;
  }
}

SLUICE_SIMD void AverageInDouble(const PoolShape& s, const Place& p, const float* x, float* out) {
  constexpr int64_t kBlock = 64;
  const auto values = static_cast<double>(s.window.height * s.window.width);
  for (int64_t first = 0; first < s.in_channels; first += kBlock) {
    const int64_t count = std::min(kBlock, s.in_channels - first);
    double sums[kBlock] = {};
    for (int64_t row = p.row; row < p.row_end; ++row) {
      for (int64_t column = p.column; column < p.column_end; ++column) {
        const float* pixel = x + (row * s.in_width + column) * s.in_channels + first;
        for (int64_t c = 0; c < count; ++c) sums[c] += pixel[c];
      }
    }
    for (int64_t c = 0; c < count; ++c) out[first + c] = static_cast<float>(sums[c] / values);
  }
}

// How a pixel's gradients become gradients of the inputs: added up or written, and the share of an average.
struct Spread {
  bool add;
  float share;
};

void PixelBackward(const PoolShape& s, const Place& p, const Spread& spread, const float* grad,
                   const int32_t* where, float* grad_x) {
  const auto [add, share] = spread;
  for (int64_t row = p.row; row < p.row_end; ++row) {
    for (int64_t column = p.column; column < p.column_end; ++column) {
      const int64_t at = row * s.in_width + column;
      float* to = grad_x + at * s.in_channels;
      for (int64_t c = 0; c < s.in_channels; ++c) {
        const float mine = where == nullptr ? grad[c] * share : (where[c] == at ? grad[c] : 0);
        to[c] = add ? to[c] + mine : mine;
      }
    }
  }
}

void Image(PoolKind kind, const PoolShape& s, const float* x, float* out, int32_t* where) {
  for (int64_t i = 0; i < s.out_height(); ++i) {
    for (int64_t j = 0; j < s.out_width(); ++j) {
      const int64_t at = (i * s.out_width() + j) * s.in_channels;
      if (kind == PoolKind::kMax) {
        MaxPixel(s, PlaceOf(s, i, j), x, out + at, where + at);
      } else if (AddsInDouble(s)) {
        AverageInDouble(s, PlaceOf(s, i, j), x, out + at);
      } else {
        AveragePixel(s, PlaceOf(s, i, j), ShareOf(s), x, out + at);
      }
    }
  }
}

void ImageBackward(bool add, const PoolShape& s, const float* grad, const int32_t* where, float* grad_x) {
  const Spread spread{add, ShareOf(s)};
  for (int64_t i = 0; i < s.out_height(); ++i) {
    for (int64_t j = 0; j < s.out_width(); ++j) {
      const int64_t at = (i * s.out_width() + j) * s.in_channels;
      PixelBackward(s, PlaceOf(s, i, j), spread, grad + at, where == nullptr ? nullptr : where + at, grad_x);
    }
  }
}

#ifdef SLUICE_MASKED
// The mask of those of the 16 channels from c on that exist.
SLUICE_MASKED inline __mmask16 MaskAt(int64_t c, int64_t channels) {
  return static_cast<__mmask16>(channels - c >= 16 ? 0xffff : (1u << (channels - c)) - 1);
}

SLUICE_MASKED void MaxPixelMasked(const PoolShape& s, const Place& p, const float* x, float* out,
                                  int32_t* where) {
  const int64_t channels = s.in_channels, first = p.row * s.in_width + p.column;
  for (int64_t c = 0; c < channels; c += 16) {
    const __mmask16 mask = MaskAt(c, channels);
    __m512 best = _mm512_maskz_loadu_ps(mask, x + first * channels + c);
    __m512i best_at = _mm512_set1_epi32(static_cast<int32_t>(first));
    for (int64_t row = p.row; row < p.row_end; ++row) {
      for (int64_t column = p.column; column < p.column_end; ++column) {
        const int64_t at = row * s.in_width + column;
        const __m512 value = _mm512_maskz_loadu_ps(mask, x + at * channels + c);
        const __mmask16 larger =
            _mm512_cmp_ps_mask(value, best, _CMP_GT_OQ) | _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
        best = _mm512_mask_mov_ps(best, larger, value);
        best_at = _mm512_mask_set1_epi32(best_at, larger, static_cast<int32_t>(at));
      }
    }
    _mm512_mask_storeu_ps(out + c, mask, best);
    _mm512_mask_storeu_epi32(where + c, mask, best_at);
  }
}

SLUICE_MASKED void AveragePixelMasked(const PoolShape& s, const Place& p, float share, const float* x,
                                      float* out) {
  const int64_t channels = s.in_channels;
  for (int64_t c = 0; c < channels; c += 16) {
    const __mmask16 mask = MaskAt(c, channels);
    __m512 sum = _mm512_setzero_ps();
    for (int64_t row = p.row; row < p.row_end; ++row) {
      for (int64_t column = p.column; column < p.column_end; ++column)
        sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, x + (row * s.in_width + column) * channels + c));
    }
    _mm512_mask_storeu_ps(out + c, mask, _mm512_mul_ps(sum, _mm512_set1_ps(share)));
  }
}

SLUICE_MASKED void PixelBackwardMasked(const PoolShape& s, const Place& p, const Spread& spread,
                                       const float* grad, const int32_t* where, float* grad_x) {
  const auto [add, share] = spread;
  const int64_t channels = s.in_channels;
  for (int64_t c = 0; c < channels; c += 16) {
    const __mmask16 mask = MaskAt(c, channels);
    __m512 g = _mm512_maskz_loadu_ps(mask, grad + c);
    __m512i from = _mm512_setzero_si512();
    if (where != nullptr) {
      from = _mm512_maskz_loadu_epi32(mask, where + c);
    } else {
      g = _mm512_mul_ps(g, _mm512_set1_ps(share));
    }
    for (int64_t row = p.row; row < p.row_end; ++row) {
      for (int64_t column = p.column; column < p.column_end; ++column) {
        const int64_t at = row * s.in_width + column;
        const __mmask16 mine =
            where == nullptr ? mask
                             : _mm512_cmpeq_epi32_mask(from, _mm512_set1_epi32(static_cast<int32_t>(at)));
        float* to = grad_x + at * channels + c;
        __m512 value = _mm512_maskz_mov_ps(mine, g);
        if (add) value = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), value);
        _mm512_mask_storeu_ps(to, mask, value);
      }
    }
  }
}

SLUICE_MASKED void ImageMasked(PoolKind kind, const PoolShape& s, const float* x, float* out,
                               int32_t* where) {
  const int64_t out_height = s.out_height(), out_width = s.out_width();
  const float share = ShareOf(s);
  const bool in_double = AddsInDouble(s);
  for (int64_t i = 0; i < out_height; ++i) {
    for (int64_t j = 0; j < out_width; ++j) {
      const int64_t at = (i * out_width + j) * s.in_channels;
      if (kind == PoolKind::kMax) {
        MaxPixelMasked(s, PlaceOf(s, i, j), x, out + at, where + at);
      } else if (in_double) {
        AverageInDouble(s, PlaceOf(s, i, j), x, out + at);
      } else {
        AveragePixelMasked(s, PlaceOf(s, i, j), share, x, out + at);
      }
    }
  }
}

SLUICE_MASKED void ImageBackwardMasked(bool add, const PoolShape& s, const float* grad, const int32_t* where,
                                       float* grad_x) {
  const int64_t out_height = s.out_height(), out_width = s.out_width();
  const Spread spread{add, ShareOf(s)};
  for (int64_t i = 0; i < out_height; ++i) {
    for (int64_t j = 0; j < out_width; ++j) {
      const int64_t at = (i * out_width + j) * s.in_channels;
      PixelBackwardMasked(s, PlaceOf(s, i, j), spread, grad + at, where == nullptr ? nullptr : where + at,
                          grad_x);
    }
  }
}

bool HasMasks() {
  return __builtin_cpu_supports("avx512f") != 0;
}
#else
bool HasMasks() {
  return false;
}
constexpr auto* ImageMasked = Image;
constexpr auto* ImageBackwardMasked = ImageBackward;
#endif

}  // namespace

void PoolImages(const PoolArgs& args, int64_t first, int64_t last) {
  const PoolShape& s = args.shape;
  const int64_t in = s.in_height * s.in_width * s.in_channels,
                outs = s.out_height() * s.out_width() * s.in_channels;
  const auto image = HasMasks() ? ImageMasked : Image;
  for (int64_t i = first; i < last; ++i)
    image(args.kind, s, args.x + i * in, args.out + i * outs,
          args.where == nullptr ? nullptr : args.where + i * outs);
}

void PoolImagesBackward(const PoolBackwardArgs& args, int64_t first, int64_t last) {
  const PoolShape& s = args.shape;
  const int64_t in = s.in_height * s.in_width * s.in_channels,
                outs = s.out_height() * s.out_width() * s.in_channels;
  const bool add = !WindowsTile(s);
  if (add) std::memset(args.grad_x + first * in, 0, static_cast<size_t>((last - first) * in) * sizeof(float));
  const auto image = HasMasks() ? ImageBackwardMasked : ImageBackward;
  for (int64_t i = first; i < last; ++i)
    image(add, s, args.grad + i * outs, args.kind == PoolKind::kMax ? args.where + i * outs : nullptr,
          args.grad_x + i * in);
}

}  // namespace sluice::cpu
