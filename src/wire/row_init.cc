#include "sluice/row_init.h"

#include <cmath>
#include <limits>

#include "base/strings.h"

namespace sluice {
namespace {

constexpr int64_t kMaxRowBytes = 1 << 20;

template <typename Int>
bool Holds(double value) {
  // The upper bound is 2^digits, which a double represents exactly, unlike the largest int64, 2^63 - 1.
  return value >= static_cast<double>(std::numeric_limits<Int>::min()) &&
         value < std::ldexp(1.0, std::numeric_limits<Int>::digits);
}

bool IsWhole(double value, DType dtype) {
  if (value != std::nearbyint(value)) return false;
  if (dtype == DType::kInt32) return Holds<int32_t>(value);
  if (dtype == DType::kUInt8) return Holds<uint8_t>(value);
  return Holds<int64_t>(value);
}

}  // namespace

std::string InvalidReason(const RowInit& init, const Shape& shape, DType dtype) {
  const auto why = [](const auto&... text) { return StrCat("row-sparse: ", text...); };
  if (shape.ndim() == 0 || shape.size() == 0)
    return why("a table of shape ", shape.ToString(), " has no row with an element");
  const int64_t row_elements = shape.size() / shape[0];
  if (row_elements > kMaxRowBytes / static_cast<int64_t>(SizeOf(dtype)))
    return why("a row of ", shape.ToString(), " has ", row_elements, " elements of ", Name(dtype),
               "; at most ", kMaxRowBytes, " bytes may be in one");
  if (init.fill > RowFill::kNormal) return why("fill ", static_cast<int>(init.fill), " is unknown");
  if (!std::isfinite(init.center)) return why("rows begin around ", init.center, "; it must be finite");
  if (!std::isfinite(init.width) || init.width < 0)
    return why("rows begin with a width of ", init.width, "; it must be finite and not below 0");
  if (IsFloating(dtype)) return {};
  if (init.fill != RowFill::kConstant || !IsWhole(init.center, dtype))
    return why(Name(dtype), " rows begin as a whole constant in its range only");
  return {};
}

}  // namespace sluice
