// Pooling of images in both layouts. A thread computes an output, or the gradient of an input, which it
// gathers from the outputs whose windows cover it: no atomics, and each gradient is written once. It owns
// nothing. Invariant: `where`, which the backward pass reads, has the place in its plane that each maximum
// came from. autograd/ops/pooling.cc calls it, in work on the stream.
#include <algorithm>

#include "tensor/cuda/kernels.h"
#include "tensor/cuda/map.cuh"

namespace sluice::cuda {
namespace {

// The numbers of a PoolShape in the type that they are divided in.
template <typename Index>
struct Extents {
  Extents(const PoolShape& s, ImageLayout layout)
      : channels(static_cast<Index>(s.in_channels)),
        height(static_cast<int>(s.in_height)),
        width(static_cast<int>(s.in_width)),
        out_height(static_cast<int>(s.out_height())),
        out_width(static_cast<int>(s.out_width())),
        window_height(static_cast<int>(s.window.height)),
        window_width(static_cast<int>(s.window.width)),
        stride_height(static_cast<int>(s.window.stride_height)),
        stride_width(static_cast<int>(s.window.stride_width)),
        pad_height(static_cast<int>(s.window.pad_height)),
        pad_width(static_cast<int>(s.window.pad_width)),
        channels_last(layout == ImageLayout::kChannelsLast) {}
  Index channels;
  int height, width, out_height, out_width, window_height, window_width;
  int stride_height, stride_width, pad_height, pad_width;
  bool channels_last;

  // Element i of images with planes of `rows` x `columns`: where it lies in its plane, where the plane of the
  // same image and channel with `size` elements begins, and how far its elements lie apart.
  struct Place {
    int row, column;
    int64_t plane;
    int64_t step;
  };
  __device__ Place PlaceOf(int64_t i, int rows, int columns, int64_t size) const {
    auto rest = static_cast<Index>(i);
    Index channel = 0;
    if (channels_last) {
      channel = rest % channels;
      rest /= channels;
    }
    const Index column = rest % static_cast<Index>(columns);
    rest /= static_cast<Index>(columns);
    const Index row = rest % static_cast<Index>(rows);
    rest /= static_cast<Index>(rows);
    const int64_t step = channels_last ? int64_t{channels} : 1;
    // `rest` is the number of the image, or of the plane.
    return {static_cast<int>(row), static_cast<int>(column), int64_t{rest} * size * step + channel, step};
  }
};

template <typename Index>
struct MaxOp {
  Extents<Index> e;
  const float* x;
  int32_t* where;
  __device__ float operator()(int64_t i) const {
    const auto at = e.PlaceOf(i, e.out_height, e.out_width, int64_t{e.height} * e.width);
    const int top = at.row * e.stride_height - e.pad_height, left = at.column * e.stride_width - e.pad_width;
    const int first_row = std::max(top, 0), last_row = std::min(top + e.window_height, e.height);
    const int first_column = std::max(left, 0), last_column = std::min(left + e.window_width, e.width);
    int best_at = first_row * e.width + first_column;
    float best = x[at.plane + best_at * at.step];
    for (int row = first_row; row < last_row; ++row) {
      for (int column = first_column; column < last_column; ++column) {
        const int place = row * e.width + column;
        const float value = x[at.plane + place * at.step];
        if (value > best || value != value) {  // after a NaN, only another NaN
          best = value;
          best_at = place;
        }
      }
    }
    where[i] = best_at;
    return best;
  }
};

// The sum is a double: over large windows a float would lose digits.
template <typename Index>
struct AverageOp {
  Extents<Index> e;
  const float* x;
  __device__ float operator()(int64_t i) const {
    const auto at = e.PlaceOf(i, e.out_height, e.out_width, int64_t{e.height} * e.width);
    const int top = at.row * e.stride_height - e.pad_height, left = at.column * e.stride_width - e.pad_width;
    double sum = 0;
    for (int row = std::max(top, 0); row < std::min(top + e.window_height, e.height); ++row) {
      for (int column = std::max(left, 0); column < std::min(left + e.window_width, e.width); ++column)
        sum += static_cast<double>(x[at.plane + (row * e.width + column) * at.step]);
    }
    return static_cast<float>(sum / (static_cast<double>(e.window_height) * e.window_width));
  }
};

// The first and the last of the outputs whose windows cover a row, or a column.
struct Covering {
  int first, last;
  __device__ Covering(int place, int pad, int window, int stride, int outs)
      : first(place + pad < window ? 0 : (place + pad - window) / stride + 1),
        last(std::min((place + pad) / stride, outs - 1)) {}
};

template <PoolKind kKind, typename Index>
struct BackwardOp {
  Extents<Index> e;
  const float* grad;
  const int32_t* where;
  float share;  // for averages
  __device__ float operator()(int64_t i) const {
    const auto at = e.PlaceOf(i, e.height, e.width, int64_t{e.out_height} * e.out_width);
    const Covering rows(at.row, e.pad_height, e.window_height, e.stride_height, e.out_height);
    const Covering columns(at.column, e.pad_width, e.window_width, e.stride_width, e.out_width);
    const int own = at.row * e.width + at.column;
    float sum = 0;
    for (int row = rows.first; row <= rows.last; ++row) {
      for (int column = columns.first; column <= columns.last; ++column) {
        const int64_t out = at.plane + (int64_t{row} * e.out_width + column) * at.step;
        if constexpr (kKind == PoolKind::kAverage) sum += grad[out] * share;
        if constexpr (kKind == PoolKind::kMax) sum += where[out] == own ? grad[out] : 0.0f;
      }
    }
    return sum;
  }
};

int64_t Inputs(const PoolShape& s) {
  return s.batch * s.in_channels * s.in_height * s.in_width;
}
int64_t Outputs(const PoolShape& s) {
  return s.batch * s.in_channels * s.out_height() * s.out_width();
}

}  // namespace

void CudaKernels::Pool(const PoolArgs& args) {
  const PoolShape& s = args.shape;
  if (Inputs(s) == 0) return;
  WithIndex(Outputs(s), [&]<typename Index>(Index) {
    const Extents<Index> extents(s, args.layout);
    if (args.kind == PoolKind::kMax)
      return Map(stream_, Outputs(s), args.out, MaxOp<Index>{extents, args.x, args.where});
    Map(stream_, Outputs(s), args.out, AverageOp<Index>{extents, args.x});
  });
}

void CudaKernels::PoolBackward(const PoolBackwardArgs& args) {
  const PoolShape& s = args.shape;
  const float share = 1.0f / static_cast<float>(s.window.height * s.window.width);
  WithIndex(Inputs(s), [&]<typename Index>(Index) {
    const Extents<Index> extents(s, args.layout);
    const auto gather = [&]<PoolKind kKind>() {
      Map(stream_, Inputs(s), args.grad_x, BackwardOp<kKind, Index>{extents, args.grad, args.where, share});
    };
    if (args.kind == PoolKind::kMax) return gather.template operator()<PoolKind::kMax>();
    gather.template operator()<PoolKind::kAverage>();
  });
}

}  // namespace sluice::cuda
