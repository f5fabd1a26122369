// Checks of the arguments of data sets. All throw Error(kInvalidArgument), whose message begins with `who`.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/strings.h"
#include "sluice/dataset.h"
#include "sluice/error.h"

namespace sluice {

inline const std::shared_ptr<const Dataset>& Required(const std::shared_ptr<const Dataset>& dataset,
                                                      std::string_view who) {
  if (!dataset) throw Error(ErrorCode::kInvalidArgument, StrCat(who, ": no dataset was given"));
  return dataset;
}

// Requires 0 <= index < size.
inline void RequireIndex(std::string_view who, int64_t index, int64_t size) {
  if (index >= 0 && index < size) return;
  throw Error(ErrorCode::kInvalidArgument,
              StrCat(who, ": sample ", index, " was asked for; there are ", size, ", from 0 on"));
}

// Requires that the memory for a sample or label, of `given` values, is exactly as long as `needed`.
inline void RequireRoom(std::string_view who, size_t given, size_t needed) {
  if (given == needed) return;
  throw Error(ErrorCode::kInvalidArgument,
              StrCat(who, ": ", needed, " values are to be written to memory for ", given));
}

// Requires that the label of sample `index` is from 0 to num_classes - 1.
inline void RequireLabel(std::string_view who, size_t index, int64_t label, int64_t num_classes) {
  if (label >= 0 && label < num_classes) return;
  throw Error(ErrorCode::kInvalidArgument,
              StrCat(who, ": label ", index, " is ", label, "; expected ",
                     label < 0 ? "at least 0" : StrCat("0 to ", num_classes - 1)));
}

}  // namespace sluice
