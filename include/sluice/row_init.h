// The initial values of the rows of a row-sparse key's table (sluice/kvstore.h). Each row is a function of
// the seed and of its id, so that its values do not depend on where and when it is first used.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/dtype.h"
#include "sluice/shape.h"

namespace sluice {

enum class RowFill : uint8_t { kConstant, kUniform, kNormal };

struct RowInit {
  RowFill fill = RowFill::kConstant;
  double center = 0;  // kConstant: the value; kUniform: the middle; kNormal: the mean
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

// Returns why a table of this shape and type cannot begin with `init`; empty if it can. A table must have
// rows, and a row must have elements and at most 1 MiB. Tables of integers begin with an integer constant.
std::string InvalidReason(const RowInit& init, const Shape& shape, DType dtype);

}  // namespace sluice
