#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace sluice::cpu {

// Rounds to odd. Rounding the result to 16 bits then gives the same as rounding
// `value` itself (Boldo, Melquiond 2008).
inline float ToOddFloat(double value) {
  const auto nearest = static_cast<float>(value);
  if (std::isnan(value) || nearest == value || (std::bit_cast<uint32_t>(nearest) & 1) != 0) return nearest;
  const bool rounded_up = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
  return std::nextafter(nearest, rounded_up ? 0.0f : std::copysign(HUGE_VALF, nearest));
}

}  // namespace sluice::cpu
