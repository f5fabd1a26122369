// Bilinear resizing (formulas: resize.h), one input row at a time.
//
// Each output row and column is a Mix of neighbouring inputs. An input row is resized across once, then
// added to the output rows that need it, so that only one resized row is kept. The Resize transform and
// DecodeSample call these functions on the DataLoader's threads; they share no state.
#include "data/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace sluice {
namespace {

// The inputs [first, end()) that one output is a mix of. From one output to the next neither `first`
// nor end() decreases.
struct Mix {
  int64_t first = 0;
  std::vector<float> weights;
  int64_t end() const { return first + static_cast<int64_t>(weights.size()); }
};

Mix TwoNeighbours(double center, int64_t extent) {
  const double at = std::max(center - 0.5, 0.0);
  const int64_t first = std::min(static_cast<int64_t>(at), extent - 1);
  if (first == extent - 1) return {first, {1.0f}};
  const auto part = static_cast<float>(at - static_cast<double>(first));
  return {first, {1 - part, part}};
}

Mix Triangle(double center, double half_width, int64_t extent) {
  const int64_t first = std::max<int64_t>(static_cast<int64_t>(std::floor(center - half_width + 0.5)), 0);
  const int64_t end = std::min(static_cast<int64_t>(std::floor(center + half_width + 0.5)), extent);
  std::vector<double> weights;
  double sum = 0;
  for (int64_t i = first; i < end; ++i) {
    const double distance = std::abs(static_cast<double>(i) + 0.5 - center) / half_width;
    weights.push_back(std::max(0.0, 1 - distance));
    sum += weights.back();
  }
  Mix mix{first, {}};
  for (const double weight : weights) mix.weights.push_back(static_cast<float>(weight / sum));
  return mix;
}

std::vector<Mix> Mixes(int64_t from, int64_t to, bool antialias) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  std::vector<Mix> mixes;
  for (int64_t i = 0; i < to; ++i) {
    const double center = scale * (static_cast<double>(i) + 0.5);
    mixes.push_back(antialias ? Triangle(center, std::max(scale, 1.0), from) : TwoNeighbours(center, from));
  }
  return mixes;
}

// Resizes one row to the output's width.
void Narrow(std::span<const float> row, const std::vector<Mix>& across, std::span<float> narrow) {
  for (size_t x = 0; x < across.size(); ++x) {
    const Mix& mix = across[x];
    const float* from = row.data() + mix.first;
    float sum = 0;
    for (size_t i = 0; i < mix.weights.size(); ++i) sum += mix.weights[i] * from[i];
    narrow[x] = sum;
  }
}

}  // namespace

void ResizeRows(const Shape& from_shape, RowOf row, const Shape& to_shape, std::span<float> to,
                bool antialias) {
  SLUICE_CHECK(from_shape.ndim() == 3 && to_shape.ndim() == 3 && from_shape[0] == to_shape[0]);
  SLUICE_CHECK(to.size() == static_cast<size_t>(to_shape.size()));
  const auto width = static_cast<size_t>(to_shape[2]);
  const std::vector<Mix> across = Mixes(from_shape[2], to_shape[2], antialias);
  const std::vector<Mix> down = Mixes(from_shape[1], to_shape[1], antialias);
  std::vector<float> narrow(width);
  std::fill(to.begin(), to.end(), 0.0f);
  for (int64_t c = 0; c < to_shape[0]; ++c) {
    float* plane = to.data() + static_cast<size_t>(c) * down.size() * width;
    size_t open = 0;  // the first output row that needs this row of the input or a later one
    for (int64_t y = 0; y < from_shape[1]; ++y) {
      while (open < down.size() && down[open].end() <= y) ++open;
      if (open == down.size() || down[open].first > y) continue;
      Narrow(row(c, y), across, narrow);
      for (size_t i = open; i < down.size() && down[i].first <= y; ++i) {
        const float weight = down[i].weights[static_cast<size_t>(y - down[i].first)];
        float* out = plane + i * width;
        const float* line = narrow.data();
        for (size_t x = 0; x < width; ++x) out[x] += weight * line[x];
      }
    }
  }
}

void ResizePlanes(const Shape& from_shape, std::span<const float> from, const Shape& to_shape,
                  std::span<float> to, bool antialias) {
  SLUICE_CHECK(from.size() == static_cast<size_t>(from_shape.size()));
  const auto width = static_cast<size_t>(from_shape[2]);
  const auto row = [&](int64_t c, int64_t y) {
    return from.subspan(static_cast<size_t>(c * from_shape[1] + y) * width, width);
  };
  ResizeRows(from_shape, row, to_shape, to, antialias);
}

}  // namespace sluice
