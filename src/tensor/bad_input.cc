#include "tensor/bad_input.h"

#include "base/strings.h"

namespace sluice {

Error BadLabel(std::string_view label, int64_t row, int64_t classes) {
  return {ErrorCode::kInvalidArgument,
          StrCat("label ", label, " of row ", row, " is no class of [0, ", classes, ")")};
}

Error BadId(std::string_view id, int64_t place, int64_t rows) {
  return {ErrorCode::kInvalidArgument,
          StrCat("id ", id, " at place ", place, " is no row of [0, ", rows, ")")};
}

Error BadLength(std::string_view length, int64_t sequence, int64_t steps) {
  return {ErrorCode::kInvalidArgument,
          StrCat("length ", length, " of sequence ", sequence, " is no whole number from 0 to ", steps)};
}

}  // namespace sluice
