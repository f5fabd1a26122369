#include "data/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace sluice {
namespace {

// The inputs that one output is made of: [first, first + weights.size()).
struct Mix {
  int64_t first = 0;
  std::vector<float> weights;
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

}  // namespace

void ResizePlanes(const Shape& from_shape, std::span<const float> from, const Shape& to_shape,
                  std::span<float> to, bool antialias) {
  SLUICE_CHECK(from_shape.ndim() == 3 && to_shape.ndim() == 3 && from_shape[0] == to_shape[0]);
  SLUICE_CHECK(from.size() == static_cast<size_t>(from_shape.size()));
  SLUICE_CHECK(to.size() == static_cast<size_t>(to_shape.size()));
  const auto old_width = static_cast<size_t>(from_shape[2]);
  const auto old_rows = static_cast<size_t>(from_shape[0] * from_shape[1]);
  const auto new_width = static_cast<size_t>(to_shape[2]);
  const std::vector<Mix> across = Mixes(from_shape[2], to_shape[2], antialias);
  const std::vector<Mix> down = Mixes(from_shape[1], to_shape[1], antialias);

  std::vector<float> narrow(old_rows * new_width);
  for (size_t row = 0; row < old_rows; ++row) {
    const float* line = from.data() + row * old_width;
    for (size_t x = 0; x < new_width; ++x) {
      const Mix& mix = across[x];
      float sum = 0;
      for (size_t i = 0; i < mix.weights.size(); ++i)
        sum += mix.weights[i] * line[static_cast<size_t>(mix.first) + i];
      narrow[row * new_width + x] = sum;
    }
  }
  std::fill(to.begin(), to.end(), 0.0f);
  float* out = to.data();
  for (int64_t c = 0; c < to_shape[0]; ++c) {
    const float* plane = narrow.data() + static_cast<size_t>(c * from_shape[1]) * new_width;
    for (const Mix& mix : down) {
      for (size_t i = 0; i < mix.weights.size(); ++i) {
        const float* line = plane + (static_cast<size_t>(mix.first) + i) * new_width;
        for (size_t x = 0; x < new_width; ++x) out[x] += mix.weights[i] * line[x];
      }
      out += new_width;
    }
  }
}

}  // namespace sluice
