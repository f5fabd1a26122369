// How the rows of a row-sparse key's table begin (sluice/kvstore.h): each as a function of the seed and its
// own id, so the same wherever and whenever it is touched first.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/dtype.h"
#include "sluice/shape.h"

namespace sluice {

enum class RowFill : uint8_t { kConstant, kUniform, kNormal };

struct RowInit {
  RowFill fill = RowFill::kConstant;
  double center = 0;  // the constant, the middle, the mean
  double width = 0;   // kUniform: [center - width, center + width); kNormal: the standard deviation
  uint64_t seed = 0;
  bool operator==(const RowInit&) const = default;

  static RowInit Constant(double value) { return {.center = value}; }
  static RowInit Uniform(double low, double high, uint64_t seed = 0) {
    return {RowFill::kUniform, (low + high) / 2, (high - low) / 2, seed};
  }
  static RowInit Normal(double mean, double deviation, uint64_t seed = 0) {
    return {RowFill::kNormal, mean, deviation, seed};
  }
};

// Empty: a table of this shape can begin so; else why not. A table has rows, rows have elements and at most
// 1 MiB; whole numbers begin as a whole constant.
std::string InvalidReason(const RowInit& init, const Shape& shape, DType dtype);

}  // namespace sluice
