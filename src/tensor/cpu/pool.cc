// Pooling of row-major images, plane [h, w] by plane, and the methods of CpuKernels for both layouts;
// pool_channels_last.cc computes the images with their channels last. It owns nothing. Invariants: padding
// counts in an average's divisor and is never a maximum; one thread computes a plane, or an image, so the
// number of threads changes no bit. autograd/ops/pooling.cc calls the methods, in work on the stream's
// thread; planes, or images, are divided among the threads of the context's team.
#include "tensor/cpu/pool.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "tensor/cpu/kernels.h"
#include "tensor/cpu/parallel.h"

namespace sluice::cpu {
namespace {

struct Span {
  int64_t begin, end;
};

// Returns the part of window `index` that lies inside the extent, without padding.
Span WindowAt(int64_t index, int64_t stride, int64_t pad, int64_t window, int64_t extent) {
  const int64_t start = index * stride - pad;
  return {std::max<int64_t>(start, 0), std::min(start + window, extent)};
}

template <typename Visit>  // visit(output index, rows, columns)
void ForEachWindow(const PoolShape& s, Visit&& visit) {
  const WindowShape& w = s.window;
  const int64_t out_height = s.out_height(), out_width = s.out_width();
  for (int64_t i = 0; i < out_height; ++i) {
    const Span rows = WindowAt(i, w.stride_height, w.pad_height, w.height, s.in_height);
    for (int64_t j = 0; j < out_width; ++j) {
      visit(i * out_width + j, rows, WindowAt(j, w.stride_width, w.pad_width, w.width, s.in_width));
    }
  }
}

// Returns the place in the plane of the window's last NaN, or `otherwise` if it has none.
int64_t LastNan(const PoolShape& s, const float* x, Span rows, Span columns, int64_t otherwise) {
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    for (int64_t c = columns.begin; c < columns.end; ++c) {
      const int64_t at = r * s.in_width + c;
      if (x[at] != x[at]) otherwise = at;
    }
  }
  return otherwise;
}

void MaxPlane(const PoolShape& s, const float* x, float* out, int32_t* where) {
  ForEachWindow(s, [&](int64_t at, Span rows, Span columns) {
    // If a value is NaN, so is the sum; testing every value instead would be 1.7 times slower.
    float best = -std::numeric_limits<float>::infinity(), sum = 0;
    int64_t best_at = rows.begin * s.in_width + columns.begin;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      for (int64_t c = columns.begin; c < columns.end; ++c) {
        const float value = x[r * s.in_width + c];
        sum += value;
        if (value > best) {
          best = value;
          best_at = r * s.in_width + c;
        }
      }
    }
    if (sum != sum) best_at = LastNan(s, x, rows, columns, best_at);
    out[at] = x[best_at];
    where[at] = static_cast<int32_t>(best_at);
  });
}

template <typename Sum>
Sum SumOf(const PoolShape& s, const float* x, Span rows, Span columns) {
  Sum sum = 0;
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    for (int64_t c = columns.begin; c < columns.end; ++c) sum += x[r * s.in_width + c];
  }
  return sum;
}

void AveragePlane(const PoolShape& s, const float* x, float* out) {
  const int64_t values = s.window.height * s.window.width;
  if (AddsInDouble(s)) {
    return ForEachWindow(s, [&](int64_t at, Span rows, Span columns) {
      out[at] = static_cast<float>(SumOf<double>(s, x, rows, columns) / static_cast<double>(values));
    });
  }
  const float share = 1.0f / static_cast<float>(values);
  ForEachWindow(
      s, [&](int64_t at, Span rows, Span columns) { out[at] = SumOf<float>(s, x, rows, columns) * share; });
}

// Computes planes [first, last) of the shape's batch x channels planes.
void PoolPlanes(const PoolArgs& args, int64_t first, int64_t last) {
  const PoolShape& s = args.shape;
  const int64_t in = s.in_height * s.in_width, outs = s.out_height() * s.out_width();
  for (int64_t plane = first; plane < last; ++plane) {
    const float* x = args.x + plane * in;
    float* out = args.out + plane * outs;
    if (args.kind == PoolKind::kMax) {
      MaxPlane(s, x, out, args.where + plane * outs);
    } else {
      AveragePlane(s, x, out);
    }
  }
}

void PoolPlanesBackward(const PoolBackwardArgs& args, int64_t first, int64_t last) {
  const PoolShape& s = args.shape;
  const int64_t in = s.in_height * s.in_width, outs = s.out_height() * s.out_width();
  const float share = 1.0f / static_cast<float>(s.window.height * s.window.width);
  std::memset(args.grad_x + first * in, 0, static_cast<size_t>((last - first) * in) * sizeof(float));
  for (int64_t plane = first; plane < last; ++plane) {
    float* to = args.grad_x + plane * in;
    const float* from = args.grad + plane * outs;
    if (args.kind == PoolKind::kMax) {
      const int32_t* where = args.where + plane * outs;
      for (int64_t at = 0; at < outs; ++at) to[where[at]] += from[at];
      continue;
    }
    ForEachWindow(s, [&](int64_t at, Span rows, Span columns) {
      const float value = from[at] * share;
      for (int64_t r = rows.begin; r < rows.end; ++r) {
        for (int64_t c = columns.begin; c < columns.end; ++c) to[r * s.in_width + c] += value;
      }
    });
  }
}

// Calls do_images(first, last), or do_planes(first, last), in parallel for what has the layout.
template <typename Images, typename Planes>
void DivideImages(ImageLayout layout, const PoolShape& s, Images do_images, Planes do_planes) {
  const PlanesShape in = s.in_planes();
  if (layout == ImageLayout::kChannelsLast)
    return ParallelFor(in.batch, PiecesWorthAThread(in.size * in.channels), do_images);
  ParallelFor(in.batch * in.channels, PiecesWorthAThread(in.size), do_planes);
}

}  // namespace

void CpuKernels::Pool(const PoolArgs& args) {
  DivideImages(
      args.layout, args.shape, [&](int64_t i, int64_t end) { PoolImages(args, i, end); },
      [&](int64_t i, int64_t end) { PoolPlanes(args, i, end); });
}

void CpuKernels::PoolBackward(const PoolBackwardArgs& args) {
  DivideImages(
      args.layout, args.shape, [&](int64_t i, int64_t end) { PoolImagesBackward(args, i, end); },
      [&](int64_t i, int64_t end) { PoolPlanesBackward(args, i, end); });
}

}  // namespace sluice::cpu
