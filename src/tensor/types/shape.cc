#include "sluice/shape.h"

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice {

Shape::Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {
  if (const std::string why = WhyInvalid(dims_); !why.empty()) throw Error(ErrorCode::kInvalidArgument, why);
  for (const int64_t dim : dims_) size_ *= dim;
}

std::string Shape::WhyInvalid(const std::vector<int64_t>& dims) {
  if (dims.size() > kMaxAxes) {
    return StrCat("shape [", StrJoin(dims), "] has ", dims.size(), " axes; at most ", kMaxAxes,
                  " are possible");
  }
  int64_t size = 1;  // without the zeros: the rows of an empty array have a size too
  for (const int64_t dim : dims) {
    if (dim < 0) return StrCat("shape [", StrJoin(dims), "] has a negative extent");
    if (dim > 0 && __builtin_mul_overflow(size, dim, &size)) {
      return StrCat("shape [", StrJoin(dims), "] has more than 2^63-1 elements");
    }
  }
  return {};
}

std::string Shape::ToString() const {
  return StrCat("[", StrJoin(dims_), "]");
}

}  // namespace sluice
